// The messages that describe values: types, tensors, and the data files of tests.
#include "frontends/onnx/protobuf/wire.h"
#include "frontends/onnx/protobuf/wire_messages.h"

namespace xyntra::onnx {

namespace {

void check_rank(const MessageReader& reader, std::size_t rank) {
  const std::int64_t max_rank = reader.state().limits().max_rank;
  if (static_cast<std::int64_t>(rank) < max_rank) return;
  throw WireError{ErrorClass::Limit, "a tensor of rank more than " + std::to_string(max_rank)};
}

void read_dims(MessageReader& reader, std::vector<std::int64_t>& dims) {
  reader.integers([&](std::int64_t dim) {
    check_rank(reader, dims.size());
    dims.push_back(dim);
  });
}

Dimension read_dimension(MessageReader reader) {
  Dimension result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        result.value = reader.integer();
        result.param = {};
        break;
      case 2:
        result.param = reader.bytes();
        result.value.reset();
        break;
      default: reader.skip();
    }
  }
  return result;
}

void read_shape(MessageReader reader, TypeProto& type) {
  if (type.has_shape) reader.fail("a type with two shapes");
  type.has_shape = true;
  while (reader.next()) {
    if (reader.field() != 1) {
      reader.skip();
      continue;
    }
    check_rank(reader, type.dims.size());
    reader.state().append(type.dims, read_dimension(reader.message("TensorShapeProto.Dimension")));
  }
}

void read_tensor_type(MessageReader reader, TypeProto& type) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1: type.element_type = reader.integer32(); break;
      case 2: read_shape(reader.message("TensorShapeProto"), type); break;
      default: reader.skip();
    }
  }
}

void read_element_type(MessageReader reader, TypeProto& type) {
  while (reader.next()) {
    if (reader.field() != 1) {
      reader.skip();
      continue;
    }
    if (!type.element.empty()) reader.fail("a sequence or optional type with two element types");
    reader.state().append(type.element, read_type(reader.message("TypeProto")));
  }
}

DatumProto read_datum(MessageReader reader, DatumProto::Kind kind) {
  ParseState& state = reader.state();
  const NestingLevel level(state);
  DatumProto result;
  result.kind = kind;
  if (kind == DatumProto::Kind::Tensor) {
    result.tensor = read_tensor(reader);
    return result;
  }
  while (reader.next()) {
    switch (reader.field()) {
      case 3: {
        MessageReader tensor = reader.message("TensorProto");
        state.append(result.items, read_datum(tensor, DatumProto::Kind::Tensor));
        break;
      }
      case 5: {
        MessageReader sequence = reader.message("SequenceProto");
        state.append(result.items, read_datum(sequence, DatumProto::Kind::Sequence));
        break;
      }
      case 7: {
        MessageReader optional = reader.message("OptionalProto");
        state.append(result.items, read_datum(optional, DatumProto::Kind::Optional));
        break;
      }
      case 4:
      case 6: throw WireError{ErrorClass::Unsupported, "a sequence or optional of sparse tensors or maps"};
      default: reader.skip();
    }
  }
  if (kind == DatumProto::Kind::Optional && result.items.size() > 1) {
    reader.fail("an optional with more than one value");
  }
  return result;
}

}  // namespace

StringEntry read_entry(MessageReader reader) {
  StringEntry result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: result.key = reader.bytes(); break;
      case 2: result.value = reader.bytes(); break;
      default: reader.skip();
    }
  }
  return result;
}

TensorProto read_tensor(MessageReader reader) {
  ParseState& state = reader.state();
  TensorProto result;
  result.message = reader.rest();
  result.offset = reader.offset();
  while (reader.next()) {
    switch (reader.field()) {
      case 1: read_dims(reader, result.dims); break;
      case 2: result.data_type = reader.integer32(); break;
      case 3:
        result.has_segment = true;
        reader.skip();
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 10:
      case 11:
        result.data_fields |= 1U << reader.field();
        reader.skip();
        break;
      case 8: result.name = reader.bytes(); break;
      case 9: result.raw_data = reader.bytes(); break;
      case 13:
        state.append(result.external_data, read_entry(reader.message("StringStringEntryProto")));
        break;
      case 14: {
        const std::int64_t location = reader.integer();
        if (location != 0 && location != 1) reader.fail("data location " + std::to_string(location));
        result.location = static_cast<TensorProto::Location>(location);
        break;
      }
      default: reader.skip();
    }
  }
  return result;
}

SparseTensorProto read_sparse_tensor(MessageReader reader) {
  SparseTensorProto result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: result.values = read_tensor(reader.message("TensorProto")); break;
      case 2: result.indices = read_tensor(reader.message("TensorProto")); break;
      case 3: read_dims(reader, result.dims); break;
      default: reader.skip();
    }
  }
  return result;
}

TypeProto read_type(MessageReader reader) {
  const NestingLevel level(reader.state());
  TypeProto result;
  const auto become = [&](TypeProto::Kind kind) {
    if (result.kind != TypeProto::Kind::Unset) reader.fail("a type that is two things at once");
    result.kind = kind;
  };
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        become(TypeProto::Kind::Tensor);
        read_tensor_type(reader.message("TypeProto.Tensor"), result);
        break;
      case 4:
        become(TypeProto::Kind::Sequence);
        read_element_type(reader.message("TypeProto.Sequence"), result);
        break;
      case 5:
        become(TypeProto::Kind::Map);
        reader.skip();
        break;
      case 7:
        become(TypeProto::Kind::Opaque);
        reader.skip();
        break;
      case 8:
        become(TypeProto::Kind::SparseTensor);
        read_tensor_type(reader.message("TypeProto.SparseTensor"), result);
        break;
      case 9:
        become(TypeProto::Kind::Optional);
        read_element_type(reader.message("TypeProto.Optional"), result);
        break;
      default: reader.skip();
    }
  }
  return result;
}

ValueInfo read_value_info(MessageReader reader) {
  ValueInfo result;
  while (reader.next()) {
    switch (reader.field()) {
      case 1: result.name = reader.bytes(); break;
      case 2:
        if (result.type) reader.fail("a value with two types");
        result.type = read_type(reader.message("TypeProto"));
        break;
      default: reader.skip();
    }
  }
  return result;
}

Result<DatumProto> parse_datum(std::span<const std::byte> bytes, DatumProto::Kind kind,
                               const WireLimits& limits) {
  ParseState state(limits, bytes.size());
  return parse_guarded(state,
                       [&] { return read_datum(MessageReader(state, as_text(bytes), 0, "datum"), kind); });
}

}  // namespace xyntra::onnx
