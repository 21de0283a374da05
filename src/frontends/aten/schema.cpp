#include "frontends/aten/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "support/text/text.h"

namespace xyntra::aten {
namespace {

struct KindName {
  std::string_view name;
  ParameterKind kind;
};
constexpr std::array kKinds = std::to_array<KindName>({
    {"Tensor", ParameterKind::Tensor},
    {"int", ParameterKind::Int},
    {"SymInt", ParameterKind::Int},
    {"float", ParameterKind::Float},
    {"SymFloat", ParameterKind::Float},
    {"bool", ParameterKind::Bool},
    {"SymBool", ParameterKind::Bool},
    {"Scalar", ParameterKind::Scalar},
    {"str", ParameterKind::String},
    {"ScalarType", ParameterKind::DType},
    {"Layout", ParameterKind::Placement},
    {"Device", ParameterKind::Placement},
    {"MemoryFormat", ParameterKind::Placement},
    {"Generator", ParameterKind::Generator},
    {"Any", ParameterKind::Any},
});

struct Constant {
  std::string_view text;
  std::int64_t value;
};
// Enumerations of torch, as schemas write them.
constexpr std::array kConstants = std::to_array<Constant>({{"Mean", 1}, {"Sum", 2}});

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::string_view until(std::string_view ends) {
    skip_spaces();
    const std::string_view found = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(found.size());
    return found;
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }
  std::string_view rest() const { return rest_; }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  std::string_view rest_;
};

tl::unexpected<Error> wrong(std::string_view schema, const std::string& what) {
  return bad_model("schema '" + std::string(schema) + "': " + what);
}

std::optional<Argument> default_of(std::string_view text, const Parameter& parameter) {
  if (text == "None") return Argument{None{}};
  if (text == "True" || text == "False") return Argument{text == "True"};
  if (text.size() >= 2 && (text[0] == '"' || text[0] == '\''))
    return Argument{std::string(text.substr(1, text.size() - 2))};
  for (const Constant& constant : kConstants) {
    if (text == constant.text) return Argument{constant.value};
  }
  if (text.starts_with("[")) {
    Argument::List list;
    for (std::string_view part = text.substr(1, text.size() - 2); !part.empty();) {
      Parameter element = parameter;
      element.is_list = false;
      const std::size_t comma = std::min(part.find(','), part.size());
      auto value =
          default_of(part.substr(part.find_first_not_of(' '), comma - part.find_first_not_of(' ')), element);
      if (!value) return std::nullopt;
      list.push_back(std::move(*value));
      part.remove_prefix(std::min(comma + 1, part.size()));
    }
    return Argument{std::move(list)};
  }
  if (parameter.kind == ParameterKind::Placement) return Argument{Placement{}};
  std::int64_t whole = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, whole).ptr == end) {
    if (parameter.kind == ParameterKind::Float) return Argument{static_cast<double>(whole)};
    return Argument{whole};
  }
  double real = 0;
  if (std::from_chars(text.data(), end, real).ptr == end) return Argument{real};
  if (text == "inf" || text == "-inf")
    return Argument{text == "inf" ? std::numeric_limits<double>::infinity()
                                  : -std::numeric_limits<double>::infinity()};
  return std::nullopt;
}

// "Tensor(a!)?[]", "int[2]", "ScalarType?"
Status read_type(Reader& reader, Parameter& parameter) {
  const std::string_view name = reader.until("?[(, )");
  const auto* kind = std::ranges::find(kKinds, name, &KindName::name);
  if (kind == kKinds.end()) return bad_model("type '" + std::string(name) + "' is not known");
  parameter.kind = kind->kind;
  while (true) {
    if (reader.take("(")) {
      reader.until(")");
      reader.take(")");
    } else if (reader.take("?")) {
      parameter.optional = true;
    } else if (reader.take("[")) {
      parameter.elements_optional = parameter.optional;
      parameter.optional = false;
      parameter.is_list = true;
      parameter.one_for_all = !reader.until("]").empty();
      reader.take("]");
    } else {
      return {};
    }
  }
}

Status read_parameter(Reader& reader, Parameter& parameter) {
  XYNTRA_CHECK_OK(read_type(reader, parameter));
  parameter.name = std::string(reader.until("=,)"));
  if (!reader.take("=")) return {};
  std::string_view text = reader.rest();
  const std::size_t size =
      text.starts_with("[") ? text.find(']') + 1 : std::min(text.find_first_of(",)"), text.size());
  text = text.substr(0, size);
  reader.take(text);
  auto value = default_of(text, parameter);
  if (!value) return bad_model("default '" + std::string(text) + "' is not understood");
  parameter.default_value = std::move(*value);
  parameter.has_default = true;
  return {};
}

}  // namespace

const Parameter* Schema::find(std::string_view parameter) const {
  const auto found = std::ranges::find(parameters, parameter, &Parameter::name);
  return found == parameters.end() ? nullptr : &*found;
}

Result<Schema> parse_schema(std::string_view text) {
  Reader reader(text);
  Schema schema;
  schema.name = std::string(reader.until("("));
  if (!reader.take("(")) return wrong(text, "'(' is missing");
  bool keyword_only = false;
  while (!reader.take(")")) {
    if (reader.at_end()) return wrong(text, "')' is missing");
    if (reader.take("*")) {
      keyword_only = true;
    } else {
      Parameter parameter;
      parameter.keyword_only = keyword_only;
      if (Status read = read_parameter(reader, parameter); !read) return wrong(text, read.error().message);
      schema.parameters.push_back(std::move(parameter));
    }
    reader.take(",");
  }
  if (!reader.take("->")) return wrong(text, "'->' is missing");
  reader.take("(");
  while (!reader.at_end() && !reader.take(")")) {
    Parameter result;
    if (Status read = read_type(reader, result); !read) return wrong(text, read.error().message);
    schema.returns.push_back({std::string(trimmed(reader.until(",)"))), result.is_list});
    reader.take(",");
  }
  return schema;
}

}  // namespace xyntra::aten
