// An ONNX file as it stands on disk: the protobuf messages as plain structs whose strings and weights are
// views into the mapped bytes. Nothing is interpreted here; import.h gives it meaning.
//
// Guarantees: nesting, nodes, functions, ranks and memory are capped (WireLimits); unknown fields are
// skipped; a scalar given twice takes the last value, as in protobuf; a singular message given twice is
// refused (protobuf would merge the two, which no exporter needs and which hides things from readers).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "frontends/onnx/protobuf/message_reader.h"
#include "support/result.h"

namespace xyntra::onnx {

struct StringEntry {
  std::string_view key;
  std::string_view value;
};

struct OpsetImport {
  std::string_view domain;
  std::int64_t version = 0;
};

// TensorProto. Elements in typed fields (float_data, …) stay encoded: `message` is decoded when the tensor
// is read, so a tensor costs no memory until then.
struct TensorProto {
  enum class Location : std::uint8_t { Default = 0, External = 1 };

  std::string_view name;
  std::vector<std::int64_t> dims;
  std::int32_t data_type = 0;
  Location location = Location::Default;
  bool has_segment = false;
  std::uint32_t data_fields = 0;  // bit n: field n of typed data occurs
  std::optional<std::string_view> raw_data;
  std::vector<StringEntry> external_data;
  std::string_view message;  // all of it, starting at `offset` in the file
  std::uint64_t offset = 0;
};

struct SparseTensorProto {
  TensorProto values;
  TensorProto indices;
  std::vector<std::int64_t> dims;
};

struct Dimension {
  std::optional<std::int64_t> value;
  std::string_view param;  // empty: not named
};

struct TypeProto {
  enum class Kind : std::uint8_t { Unset, Tensor, Sequence, Map, Optional, SparseTensor, Opaque };

  Kind kind = Kind::Unset;
  std::int32_t element_type = 0;              // Tensor, SparseTensor
  bool has_shape = false;                     // Tensor, SparseTensor
  std::vector<Dimension> dims;                // Tensor, SparseTensor
  std::vector<TypeProto> element;             // Sequence, Optional: one
};

struct ValueInfo {
  std::string_view name;
  std::optional<TypeProto> type;
};

struct Graph;

struct Attribute {
  enum class Type : std::uint8_t {
    Undefined = 0,
    Float = 1,
    Int = 2,
    String = 3,
    Tensor = 4,
    Graph = 5,
    Floats = 6,
    Ints = 7,
    Strings = 8,
    Tensors = 9,
    Graphs = 10,
    SparseTensor = 11,
    SparseTensors = 12,
    TypeProto = 13,
    TypeProtos = 14,
  };

  std::string_view name;
  std::string_view reference;  // ref_attr_name: stands for an attribute of the enclosing function
  Type type = Type::Undefined;
  // What does not fit `type`, for the error of the node that holds the attribute.
  std::int64_t unknown_type = 0;
  const char* stray_field = nullptr;
  float f = 0;
  std::int64_t i = 0;
  std::string_view s;
  // A singular tensor, graph or type is the one element of its list.
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string_view> strings;
  std::vector<TensorProto> tensors;
  std::vector<SparseTensorProto> sparse_tensors;
  std::vector<Graph> graphs;
  std::vector<TypeProto> types;
};

const char* name_of(Attribute::Type type);  // "INTS"

struct Node {
  std::string_view name;
  std::string_view op_type;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<Attribute> attributes;
};

struct Graph {
  std::string_view name;
  std::string_view doc_string;
  std::vector<Node> nodes;
  std::vector<TensorProto> initializers;
  std::vector<SparseTensorProto> sparse_initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_infos;
  std::vector<StringEntry> metadata;
};

struct Function {
  std::string_view name;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> attributes;  // required ones
  std::vector<Attribute> default_attributes;
  std::vector<Node> nodes;
  std::vector<OpsetImport> opset_imports;
  std::vector<ValueInfo> value_infos;
};

struct Model {
  std::int64_t ir_version = 0;
  std::vector<OpsetImport> opset_imports;
  std::string_view producer_name;
  std::string_view producer_version;
  std::string_view domain;
  std::int64_t model_version = 0;
  std::string_view doc_string;
  std::optional<Graph> graph;
  std::vector<StringEntry> metadata;
  std::vector<Function> functions;
  bool has_training_info = false;
};

// `bytes` must outlive what is returned.
Result<Model> parse_model(std::span<const std::byte> bytes, const WireLimits& limits = {});
Result<TensorProto> parse_tensor(std::span<const std::byte> bytes, const WireLimits& limits = {});

// The values of test data and `--input x=x.pb`: a TensorProto, SequenceProto or OptionalProto by itself.
struct DatumProto {
  enum class Kind : std::uint8_t { Tensor, Sequence, Optional };
  Kind kind = Kind::Tensor;
  TensorProto tensor;
  std::vector<DatumProto> items;
};
Result<DatumProto> parse_datum(std::span<const std::byte> bytes, DatumProto::Kind kind,
                               const WireLimits& limits = {});

}  // namespace xyntra::onnx
