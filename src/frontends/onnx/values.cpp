#include "frontends/onnx/values.h"

#include <algorithm>

namespace xyntra::onnx {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// At most this much of a name is kept: names are for people.
constexpr std::size_t kLongestSymbol = 64;

std::string identifier(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, kLongestSymbol)) name += is_letter(c) || is_digit(c) ? c : '_';
  // "u3_0_1" is how inference names sizes that only running tells.
  const bool like_inferred = name.size() > 1 && name[0] == 'u' && is_digit(name[1]);
  if (name.empty() || is_digit(name[0]) || like_inferred) name.insert(0, "d");
  return name;
}

Result<DType> element_dtype(const TypeProto& proto) {
  if (const auto dtype = dtype_of_onnx_code(proto.element_type)) return *dtype;
  switch (proto.element_type) {
    case 0: return bad_model("a tensor type without element type");
    case 14:
    case 15: return unsupported("tensors of complex numbers");
    default: return bad_model("unknown element type " + std::to_string(proto.element_type));
  }
}

// Some exporters write "?" for every size they do not know; two of them need not be equal.
bool names_a_size(std::string_view param) { return !param.empty() && param != "?"; }

Result<Type> import_tensor_type(const TypeProto& proto, SymbolNames& symbols, std::string_view stem,
                                SizeNames size_names) {
  XYNTRA_TRY(const DType dtype, element_dtype(proto));
  if (!proto.has_shape) return Type::tensor(dtype);
  Shape shape;
  Dims constants;
  for (const Dimension& dim : proto.dims) {
    const bool keeps_name = names_a_size(dim.param) && size_names == SizeNames::AsDeclared;
    if (dim.value && *dim.value >= 0) {
      shape.emplace_back(*dim.value);
      constants.push_back(*dim.value);
    } else if (dim.value && *dim.value < -1) {
      return bad_model("the negative size " + std::to_string(*dim.value));
    } else {  // -1 is how some exporters say "any"
      shape.push_back(keeps_name ? symbols.named(dim.param)
                                 : symbols.fresh(std::string(stem.substr(0, kLongestSymbol)) + "_" +
                                                 std::to_string(shape.size())));
    }
  }
  // A zero elsewhere does not excuse sizes whose product would overflow once it is gone.
  std::erase(constants, 0);
  XYNTRA_CHECK_OK(byte_size(dtype, constants));
  return Type::tensor(dtype, std::move(shape));
}

std::string shape_text(const TypeProto& proto) {
  std::string text = "[";
  for (const Dimension& dim : proto.dims) {
    if (text.size() > 1) text += ", ";
    text += dim.value ? std::to_string(*dim.value) : dim.param.empty() ? "?" : std::string(dim.param);
  }
  return text + "]";
}

const char* kind_text(TypeProto::Kind kind) {
  switch (kind) {
    case TypeProto::Kind::Unset: return "nothing";
    case TypeProto::Kind::Tensor: return "a tensor";
    case TypeProto::Kind::Sequence: return "a sequence";
    case TypeProto::Kind::Map: return "a map";
    case TypeProto::Kind::Optional: return "an optional";
    case TypeProto::Kind::SparseTensor: return "a sparse tensor";
    case TypeProto::Kind::Opaque: return "an opaque value";
  }
  return "nothing";
}

TypeProto::Kind kind_of(const Type& type) {
  switch (type.kind) {
    case Type::Kind::Unknown: return TypeProto::Kind::Unset;
    case Type::Kind::Tensor: return TypeProto::Kind::Tensor;
    case Type::Kind::Sequence: return TypeProto::Kind::Sequence;
    case Type::Kind::Optional: return TypeProto::Kind::Optional;
  }
  return TypeProto::Kind::Unset;
}

bool shapes_clash(const Shape& shape, const TypeProto& declared) {
  if (shape.size() != declared.dims.size()) return true;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto& size = declared.dims[axis].value;
    if (size && *size >= 0 && shape[axis].is_constant() && shape[axis].constant() != *size) return true;
  }
  return false;
}

}  // namespace

void SymbolNames::declare(std::string_view text) {
  if (text.empty() || declared_.contains(text)) return;
  declared_.emplace(std::string(text), unused(text));
}

Dim SymbolNames::named(std::string_view text) {
  declare(text);
  return Dim::symbol(declared_.find(text)->second);
}

Dim SymbolNames::fresh(std::string_view stem) { return Dim::symbol(unused(stem)); }

std::string SymbolNames::unused(std::string_view text) {
  const std::string stem = identifier(text);
  std::string name = stem;
  while (!used_.insert(name).second) name = stem + "_" + std::to_string(++clashes_);
  return name;
}

Result<Type> import_type(const TypeProto& proto, SymbolNames& symbols, std::string_view stem,
                         SizeNames size_names) {
  switch (proto.kind) {
    case TypeProto::Kind::Tensor: return import_tensor_type(proto, symbols, stem, size_names);
    case TypeProto::Kind::Sequence:
    case TypeProto::Kind::Optional: {
      if (proto.element.empty())
        return bad_model(std::string(kind_text(proto.kind)) + " without element type");
      XYNTRA_TRY(Type element,
                 import_type(proto.element[0], symbols, stem, size_names));  // nesting is capped
      return proto.kind == TypeProto::Kind::Sequence ? Type::sequence(std::move(element))
                                                     : Type::optional(std::move(element));
    }
    case TypeProto::Kind::Unset: return bad_model("a value without a type");
    case TypeProto::Kind::Map:
    case TypeProto::Kind::SparseTensor:
    case TypeProto::Kind::Opaque: return unsupported(std::string("a value that is ") + kind_text(proto.kind));
  }
  return bad_model("a value without a type");
}

namespace {

std::string clash_text(std::string_view value_name, const std::string& declared, const std::string& found) {
  return "value '" + std::string(value_name) + "' is declared as " + declared + " but is " + found;
}

}  // namespace

Status check_declared(const Type& inferred, const TypeProto& declared, std::string_view value_name) {
  const auto clash = [&](const std::string& expected, const std::string& found) {
    return bad_model(clash_text(value_name, expected, found));
  };
  const TypeProto::Kind kind = kind_of(inferred);
  if (kind == TypeProto::Kind::Unset || declared.kind == TypeProto::Kind::Unset) return {};
  if (kind != declared.kind) return clash(kind_text(declared.kind), inferred.to_string());
  if (kind != TypeProto::Kind::Tensor) {
    if (declared.element.empty()) return {};
    return check_declared(*inferred.element, declared.element[0], value_name);
  }
  if (declared.element_type != 0 && declared.element_type != onnx_code_of(inferred.dtype)) {
    const auto dtype = dtype_of_onnx_code(declared.element_type);
    const std::string expected =
        dtype ? std::string(name_of(*dtype)) : "element type " + std::to_string(declared.element_type);
    return clash(expected, inferred.to_string());
  }
  return {};
}

std::optional<std::string> wrong_shape(const Type& inferred, const TypeProto& declared,
                                       std::string_view value_name) {
  if (kind_of(inferred) != declared.kind) return std::nullopt;
  if (!inferred.is_tensor()) {
    const bool known = inferred.element && !declared.element.empty();
    return known ? wrong_shape(*inferred.element, declared.element[0], value_name) : std::nullopt;
  }
  if (!declared.has_shape || !inferred.shape || !shapes_clash(*inferred.shape, declared)) return std::nullopt;
  return clash_text(value_name, std::string(name_of(inferred.dtype)) + shape_text(declared),
                    inferred.to_string());
}

Result<xyntra::Attribute> import_attribute(const Attribute& attribute, TensorReader& tensors) {
  using Type = Attribute::Type;
  switch (attribute.type) {
    case Type::Float: return attribute.f;
    case Type::Int: return attribute.i;
    case Type::String: return std::string(attribute.s);
    case Type::Floats: return attribute.floats;
    case Type::Ints: return attribute.ints;
    case Type::Strings: return std::vector<std::string>(attribute.strings.begin(), attribute.strings.end());
    case Type::Tensor: {
      if (attribute.tensors.empty()) break;
      XYNTRA_TRY(Tensor tensor, tensors.read(attribute.tensors[0]));
      return tensor;
    }
    case Type::SparseTensor: {
      if (attribute.sparse_tensors.empty()) break;
      XYNTRA_TRY(Tensor tensor, tensors.read_sparse(attribute.sparse_tensors[0]));
      return tensor;
    }
    case Type::TypeProto: {
      if (attribute.types.empty()) break;
      SymbolNames symbols;  // types in attributes describe elements; their sizes are not the model's
      XYNTRA_TRY(xyntra::Type type, import_type(attribute.types[0], symbols, "d"));
      return type;
    }
    case Type::Undefined: break;
    case Type::Graph:
    case Type::Tensors:
    case Type::Graphs:
    case Type::SparseTensors:
    case Type::TypeProtos:
      return unsupported("attribute '" + std::string(attribute.name) + "' of type " +
                         name_of(attribute.type));
  }
  return bad_model("attribute '" + std::string(attribute.name) + "' has no value");
}

}  // namespace xyntra::onnx
