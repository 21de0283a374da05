// Reads ops.def into OpDefs, once. A malformed line is a bug of ours and is refused at start-up.
#include <algorithm>

#include "ops/formula_context.h"
#include "ops/host_context.h"
#include "ops/op.h"
#include "support/text/text.h"

namespace xyntra {

namespace rule {
#define OP(name, signature, attributes, dtypes, traits, rule_name, kind, definition) \
  Status rule_name(InferenceContext&);
#include "ops/ops.def"
#undef OP
}  // namespace rule

#define XYNTRA_DECLARE_FORMULA(definition) \
  namespace formula {                      \
  Status definition(FormulaContext&);      \
  }
#define XYNTRA_DECLARE_HOST(definition) \
  namespace host {                      \
  Status definition(HostContext&);      \
  }
#define FORMULA XYNTRA_DECLARE_FORMULA
#define HOST XYNTRA_DECLARE_HOST
#define OP(name, signature, attributes, dtypes, traits, rule_name, kind, definition) kind(definition)
#include "ops/ops.def"
#undef OP
#undef FORMULA
#undef HOST

// ---- what an op with a formula does with strings, where that is not what it does with their ranks
namespace host {
Status cast_strings(HostContext&);
}  // namespace host

namespace {

struct StringForm {
  std::string_view op;
  Status (*host)(HostContext&);
};
constexpr StringForm kStringForms[] = {
    {"Cast", &host::cast_strings},
    {"CastLike", &host::cast_strings},
};

struct Line {
  const char* name;
  const char* signature;
  const char* attributes;
  const char* dtypes;
  std::uint32_t traits;
  Status (*shape_rule)(InferenceContext&);
  Status (*formula)(FormulaContext&);
  Status (*host)(HostContext&);
};

#define FORMULA(definition) &formula::definition, nullptr
#define HOST(definition) nullptr, &host::definition
#define OP(name, signature, attributes, dtypes, traits, rule_name, kind, definition) \
  {name, signature, attributes, dtypes, traits, &rule::rule_name, kind(definition)},
const Line kLines[] = {
#include "ops/ops.def"
};
#undef OP
#undef FORMULA
#undef HOST

[[noreturn]] void refuse(const Line& line, const std::string& what) {
  internal_error(std::string("ops.def: ") + line.name + ": " + what);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!trim(text).empty()) {
    std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(trim(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool ends_with_removed(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

Parameter parse_parameter(const Line& line, std::string_view text) {
  std::size_t space = text.find(' ');
  if (space == std::string_view::npos)
    refuse(line, "parameter '" + std::string(text) + "' needs type and name");
  Parameter parameter;
  std::string_view type = text.substr(0, space);
  std::string_view name = trim(text.substr(space));
  parameter.variadic = ends_with_removed(type, "...");
  parameter.optional = ends_with_removed(name, "?");
  parameter.type = std::string(type);
  parameter.name = std::string(name);
  return parameter;
}

struct DTypeWord {
  std::string_view word;
  bool (*accepts)(DType);
};

bool is_wide_float(DType d) { return is_float(d) && bits_of(d) >= 16; }
constexpr DTypeWord kWords[] = {
    {"any", [](DType d) { return !is_string(d); }},
    {"float", is_wide_float},
    {"small_float", [](DType d) { return is_float(d) && bits_of(d) < 16; }},
    {"number", [](DType d) { return is_wide_float(d) || (is_integer(d) && bits_of(d) >= 8); }},
    {"integer", [](DType d) { return is_integer(d) && bits_of(d) >= 8; }},
    {"signed", [](DType d) { return is_signed_integer(d) && bits_of(d) >= 8; }},
    {"unsigned", [](DType d) { return class_of(d) == DTypeClass::Unsigned && bits_of(d) >= 8; }},
    {"small_integer", [](DType d) { return is_integer(d) && bits_of(d) < 8; }},
    {"index", [](DType d) { return d == DType::I64 || d == DType::I32; }},
};
constexpr DType kAllDTypes[] = {
#define DTYPE(enumerator, spelling, bits, dtype_class, onnx) DType::enumerator,
#include "types/dtypes.def"
#undef DTYPE
};

DTypeSet parse_dtype_set(const Line& line, std::string_view text) {
  DTypeSet set = 0;
  for (std::string_view word : split(text, '|')) {
    auto found =
        std::find_if(std::begin(kWords), std::end(kWords), [word](const auto& w) { return w.word == word; });
    auto named = dtype_named(word);
    if (found == std::end(kWords) && !named) refuse(line, "unknown dtype '" + std::string(word) + "'");
    for (DType dtype : kAllDTypes) {
      if (named ? dtype == *named : found->accepts(dtype)) set |= DTypeSet{1} << static_cast<int>(dtype);
    }
  }
  return set;
}

Attribute parse_default(const Line& line, const std::string& kind, std::string_view text) {
  if (kind == "int") {
    const auto value = parse_i64(text);
    if (!value) refuse(line, "bad default");
    return *value;
  }
  if (kind == "float") {
    const auto value = parse_f32(text);
    if (!value) refuse(line, "bad default");
    return *value;
  }
  if (kind == "string") return std::string(text);
  refuse(line, "attributes of kind " + kind + " have no defaults");
}

AttributeSpec parse_attribute(const Line& line, std::string_view text) {
  constexpr std::string_view kKinds[] = {"int",     "float",  "string", "ints", "floats",
                                         "strings", "tensor", "graph",  "type"};
  AttributeSpec spec;
  std::size_t equals = text.find('=');
  std::string_view declared = trim(text.substr(0, equals));
  bool optional = ends_with_removed(declared, "?");
  std::size_t colon = declared.find(':');
  if (colon == std::string_view::npos) refuse(line, "attribute '" + std::string(text) + "' has no kind");
  spec.name = std::string(trim(declared.substr(0, colon)));
  spec.kind = std::string(trim(declared.substr(colon + 1)));
  if (std::find(std::begin(kKinds), std::end(kKinds), spec.kind) == std::end(kKinds)) {
    refuse(line, "unknown attribute kind '" + spec.kind + "'");
  }
  if (equals != std::string_view::npos)
    spec.default_value = parse_default(line, spec.kind, trim(text.substr(equals + 1)));
  spec.required = !optional && !spec.default_value;
  return spec;
}

OpDef parse_line(const Line& line) {
  OpDef def;
  def.name = line.name;
  def.signature = line.signature;
  std::string_view signature = line.signature;
  std::size_t close = signature.find(')'), arrow = signature.find("->");
  if (!signature.starts_with("(") || close == std::string_view::npos || arrow == std::string_view::npos) {
    refuse(line, "signature must be (inputs) -> outputs");
  }
  for (auto part : split(signature.substr(1, close - 1), ','))
    def.inputs.push_back(parse_parameter(line, part));
  for (auto part : split(signature.substr(arrow + 2), ','))
    def.outputs.push_back(parse_parameter(line, part));
  for (auto part : split(line.attributes, ',')) def.attributes.push_back(parse_attribute(line, part));
  for (auto part : split(line.dtypes, ';')) {
    std::size_t colon = part.find(':');
    if (colon == std::string_view::npos) refuse(line, "dtypes must be 'T: …'");
    def.variables.emplace_back(trim(part.substr(0, colon)), parse_dtype_set(line, part.substr(colon + 1)));
  }
  for (const auto* list : {&def.inputs, &def.outputs}) {
    for (const Parameter& parameter : *list) {
      bool variable = std::any_of(def.variables.begin(), def.variables.end(),
                                  [&parameter](const auto& v) { return v.first == parameter.type; });
      if (!variable && parameter.type != "value" && !dtype_named(parameter.type)) {
        refuse(line, "unknown type '" + parameter.type + "'");
      }
    }
  }
  def.traits = line.traits;
  def.shape_rule = line.shape_rule;
  def.formula = line.formula;
  def.host = line.host;
  const auto form = std::ranges::find(kStringForms, std::string_view(def.name), &StringForm::op);
  if (form != std::end(kStringForms)) def.strings = form->host;
  return def;
}

const std::vector<OpDef>& registry() {
  static const std::vector<OpDef> kOps = [] {
    std::vector<OpDef> ops;
    for (const Line& line : kLines) ops.push_back(parse_line(line));
    std::sort(ops.begin(), ops.end(), [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
    for (std::size_t i = 1; i < ops.size(); ++i) {
      if (ops[i].name == ops[i - 1].name) internal_error("ops.def: " + ops[i].name + " is defined twice");
    }
    return ops;
  }();
  return kOps;
}

}  // namespace

const AttributeSpec* OpDef::attribute(std::string_view attribute_name) const {
  auto found =
      std::find_if(attributes.begin(), attributes.end(),
                   [attribute_name](const AttributeSpec& spec) { return spec.name == attribute_name; });
  return found == attributes.end() ? nullptr : &*found;
}

const OpDef* find_op(std::string_view name) {
  const auto& ops = registry();
  auto found = std::lower_bound(ops.begin(), ops.end(), name,
                                [](const OpDef& def, std::string_view wanted) { return def.name < wanted; });
  return found != ops.end() && found->name == name ? &*found : nullptr;
}

std::span<const OpDef> all_ops() { return registry(); }

}  // namespace xyntra
