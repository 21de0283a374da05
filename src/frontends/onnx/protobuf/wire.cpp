#include "frontends/onnx/protobuf/wire.h"

#include <array>
#include <bit>

#include "frontends/onnx/protobuf/wire_messages.h"

namespace xyntra::onnx {

namespace {

OpsetImport read_opset_import(MessageReader reader) {
  OpsetImport result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: result.domain = reader.bytes(); break;
      case 2: result.version = reader.integer(); break;
      default: reader.skip();
    }
  }
  return result;
}

// The value fields of AttributeProto: which type each belongs to.
struct ValueField {
  std::uint32_t field;
  Attribute::Type type;
  const char* name;
};
using AttributeType = Attribute::Type;
constexpr std::array<ValueField, 14> kValueFields{{
    {2, AttributeType::Float, "f"},
    {3, AttributeType::Int, "i"},
    {4, AttributeType::String, "s"},
    {5, AttributeType::Tensor, "t"},
    {6, AttributeType::Graph, "g"},
    {7, AttributeType::Floats, "floats"},
    {8, AttributeType::Ints, "ints"},
    {9, AttributeType::Strings, "strings"},
    {10, AttributeType::Tensors, "tensors"},
    {11, AttributeType::Graphs, "graphs"},
    {14, AttributeType::TypeProto, "tp"},
    {15, AttributeType::TypeProtos, "type_protos"},
    {22, AttributeType::SparseTensor, "sparse_tensor"},
    {23, AttributeType::SparseTensors, "sparse_tensors"},
}};

// The fields present must be those of the type said; an old file that says none has the type of its field.
void settle_type(Attribute& attribute, std::int64_t said, std::uint32_t present) {
  if (said < 0 || said > static_cast<std::int64_t>(AttributeType::TypeProtos)) {
    attribute.unknown_type = said;
    return;
  }
  attribute.type = static_cast<AttributeType>(said);
  for (const ValueField& value : kValueFields) {
    if ((present >> value.field & 1) == 0) continue;
    if (attribute.type == AttributeType::Undefined) attribute.type = value.type;
    if (attribute.type != value.type) attribute.stray_field = value.name;
  }
}

void add_message_once(const MessageReader& reader, std::uint32_t present, const Attribute& attribute) {
  if ((present >> reader.field() & 1) == 0) return;
  reader.fail("attribute '" + std::string(attribute.name) + "' has its value twice");
}

Attribute read_attribute(MessageReader reader) {
  ParseState& state = reader.state();
  Attribute result;
  std::int64_t said = 0;
  std::uint32_t present = 0;
  while (reader.next()) {
    const std::uint32_t field = reader.field();
    switch (field) {
      case 1: result.name = reader.bytes(); break;
      case 2: result.f = reader.number32(); break;
      case 3: result.i = reader.integer(); break;
      case 4: result.s = reader.bytes(); break;
      case 5:
        add_message_once(reader, present, result);
        state.append(result.tensors, read_tensor(reader.message("TensorProto")));
        break;
      case 6:
        add_message_once(reader, present, result);
        state.append(result.graphs, read_graph(reader.message("GraphProto")));
        break;
      case 7:
        reader.floats([&](std::uint32_t bits) { state.append(result.floats, std::bit_cast<float>(bits)); });
        break;
      case 8: reader.integers([&](std::int64_t value) { state.append(result.ints, value); }); break;
      case 9: state.append(result.strings, reader.bytes()); break;
      case 10: state.append(result.tensors, read_tensor(reader.message("TensorProto"))); break;
      case 11: state.append(result.graphs, read_graph(reader.message("GraphProto"))); break;
      case 14:
        add_message_once(reader, present, result);
        state.append(result.types, read_type(reader.message("TypeProto")));
        break;
      case 15: state.append(result.types, read_type(reader.message("TypeProto"))); break;
      case 20: said = reader.integer(); break;
      case 21: result.reference = reader.bytes(); break;
      case 22:
        add_message_once(reader, present, result);
        state.append(result.sparse_tensors, read_sparse_tensor(reader.message("SparseTensorProto")));
        break;
      case 23:
        state.append(result.sparse_tensors, read_sparse_tensor(reader.message("SparseTensorProto")));
        break;
      default: reader.skip();
    }
    if (field < 32) present |= 1U << field;
  }
  settle_type(result, said, present);
  return result;
}

Node read_node(MessageReader reader) {
  ParseState& state = reader.state();
  state.count_node();
  Node result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: state.append(result.inputs, reader.bytes()); break;
      case 2: state.append(result.outputs, reader.bytes()); break;
      case 3: result.name = reader.bytes(); break;
      case 4: result.op_type = reader.bytes(); break;
      case 5: state.append(result.attributes, read_attribute(reader.message("AttributeProto"))); break;
      case 7: result.domain = reader.bytes(); break;
      case 8: result.overload = reader.bytes(); break;
      default: reader.skip();
    }
  }
  return result;
}

Function read_function(MessageReader reader) {
  ParseState& state = reader.state();
  state.count_function();
  Function result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: result.name = reader.bytes(); break;
      case 4: state.append(result.inputs, reader.bytes()); break;
      case 5: state.append(result.outputs, reader.bytes()); break;
      case 6: state.append(result.attributes, reader.bytes()); break;
      case 7: state.append(result.nodes, read_node(reader.message("NodeProto"))); break;
      case 9:
        state.append(result.opset_imports, read_opset_import(reader.message("OperatorSetIdProto")));
        break;
      case 10: result.domain = reader.bytes(); break;
      case 11:
        state.append(result.default_attributes, read_attribute(reader.message("AttributeProto")));
        break;
      case 12: state.append(result.value_infos, read_value_info(reader.message("ValueInfoProto"))); break;
      case 13: result.overload = reader.bytes(); break;
      default: reader.skip();
    }
  }
  return result;
}

Model read_model(MessageReader reader) {
  ParseState& state = reader.state();
  Model result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: result.ir_version = reader.integer(); break;
      case 2: result.producer_name = reader.bytes(); break;
      case 3: result.producer_version = reader.bytes(); break;
      case 4: result.domain = reader.bytes(); break;
      case 5: result.model_version = reader.integer(); break;
      case 6: result.doc_string = reader.bytes(); break;
      case 7:
        if (result.graph) reader.fail("the model has two graphs");
        result.graph = read_graph(reader.message("GraphProto"));
        break;
      case 8:
        state.append(result.opset_imports, read_opset_import(reader.message("OperatorSetIdProto")));
        break;
      case 14: state.append(result.metadata, read_entry(reader.message("StringStringEntryProto"))); break;
      case 20:
        result.has_training_info = true;
        reader.skip();
        break;
      case 25: state.append(result.functions, read_function(reader.message("FunctionProto"))); break;
      default: reader.skip();
    }
  }
  return result;
}

}  // namespace

Graph read_graph(MessageReader reader) {
  ParseState& state = reader.state();
  const NestingLevel level(state);
  Graph result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: state.append(result.nodes, read_node(reader.message("NodeProto"))); break;
      case 2: result.name = reader.bytes(); break;
      case 5: state.append(result.initializers, read_tensor(reader.message("TensorProto"))); break;
      case 10: result.doc_string = reader.bytes(); break;
      case 11: state.append(result.inputs, read_value_info(reader.message("ValueInfoProto"))); break;
      case 12: state.append(result.outputs, read_value_info(reader.message("ValueInfoProto"))); break;
      case 13: state.append(result.value_infos, read_value_info(reader.message("ValueInfoProto"))); break;
      case 15:
        state.append(result.sparse_initializers, read_sparse_tensor(reader.message("SparseTensorProto")));
        break;
      case 16: state.append(result.metadata, read_entry(reader.message("StringStringEntryProto"))); break;
      default: reader.skip();
    }
  }
  return result;
}

const char* name_of(Attribute::Type type) {
  constexpr std::array<const char*, 15> kNames{
      "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
      "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};
  return kNames.at(static_cast<std::size_t>(type));
}

Result<Model> parse_model(std::span<const std::byte> bytes, const WireLimits& limits) {
  ParseState state(limits, bytes.size());
  return parse_guarded(state,
                       [&] { return read_model(MessageReader(state, as_text(bytes), 0, "ModelProto")); });
}

Result<TensorProto> parse_tensor(std::span<const std::byte> bytes, const WireLimits& limits) {
  ParseState state(limits, bytes.size());
  return parse_guarded(state,
                       [&] { return read_tensor(MessageReader(state, as_text(bytes), 0, "TensorProto")); });
}

}  // namespace xyntra::onnx
