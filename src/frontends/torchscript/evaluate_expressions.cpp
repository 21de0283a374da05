#include <algorithm>

#include "frontends/torchscript/evaluator.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

constexpr std::string_view kRoots[] = {"torch", "ops", "__torch__", "CONSTANTS"};

}  // namespace

Result<Value> Evaluator::evaluate(ExpressionId id, Frame& frame) {
  const Nested nested(*this);
  XYNTRA_CHECK_OK(nested.check());
  return evaluate_any((*frame.file)[id], frame);
}

Result<Value> Evaluator::evaluate_any(const Expression& expression, Frame& frame) {
  using Kind = Expression::Kind;
  const auto all = [&](const std::vector<ExpressionId>& ids) -> Result<Values> {
    Values values;
    values.reserve(ids.size());
    for (const ExpressionId id : ids) {
      XYNTRA_TRY(Value value, evaluate(id, frame));
      values.push_back(std::move(value));
    }
    return values;
  };
  switch (expression.kind) {
    case Kind::None: return Value();
    case Kind::Bool: return Value::of(expression.integer != 0);
    case Kind::Integer: return Value::of(expression.integer);
    case Kind::Real: return Value::of(expression.real);
    case Kind::Text: return Value(expression.string);
    case Kind::Name: return name_value(expression, frame);
    case Kind::Attribute: return attribute_value(expression, frame);
    case Kind::Subscript: {
      XYNTRA_TRY(const Value base, evaluate(expression.operands[0], frame));
      XYNTRA_TRY(const Value index, evaluate(expression.operands[1], frame));
      return subscript(base, index);
    }
    case Kind::Call: return call(expression, frame);
    case Kind::Tuple: {
      XYNTRA_TRY(Values items, all(expression.operands));
      return new_tuple(std::move(items));
    }
    case Kind::List: {
      XYNTRA_TRY(Values items, all(expression.operands));
      return new_list(std::move(items));
    }
    case Kind::Dict: {
      auto mapping = std::make_shared<Mapping>();
      mapping->birth = ++births_;
      for (std::size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
        XYNTRA_TRY(Value key, evaluate(expression.operands[i], frame));
        XYNTRA_TRY(Value value, evaluate(expression.operands[i + 1], frame));
        XYNTRA_CHECK_OK(set_entry(mapping, key, std::move(value)));
      }
      return Value(std::move(mapping));
    }
    case Kind::Conditional: {
      XYNTRA_TRY(const Value condition, evaluate(expression.operands[0], frame));
      XYNTRA_TRY(const std::optional<bool> known, truth(condition));
      if (!known) return unsupported("a conditional expression that only running decides");
      return evaluate(expression.operands[*known ? 1 : 2], frame);
    }
  }
  internal_error("evaluate_any: no such kind of expression");
}

Result<Value> Evaluator::name_value(const Expression& expression, Frame& frame) {
  if (const auto found = frame.names.find(expression.name); found != frame.names.end()) {
    if (const aten::Unreadable* why = found->second.why_unreadable(); why != nullptr && !keeps_missing())
      return unsupported("'" + std::string(expression.name) + "' is " + why->what);
    return found->second;
  }
  if (builtin_named(expression.name) != nullptr) {
    Callable callable;
    callable.name = std::string(expression.name);
    return Value(std::move(callable));
  }
  return bad_model("'" + std::string(expression.name) + "' is not defined");
}

// "torch.add" for such a chain of names that begins with no variable.
std::optional<std::string> Evaluator::dotted_name(const SourceFile& file, ExpressionId id,
                                                  const Frame& frame) const {
  constexpr std::size_t kMostParts = 64;  // asked for each attribute of a chain, so a long chain is no name
  std::vector<std::string_view> parts;
  while (file[id].kind == Expression::Kind::Attribute) {
    if (parts.size() == kMostParts) return std::nullopt;
    parts.push_back(file[id].name);
    id = file[id].operands[0];
  }
  const std::string_view root = file[id].name;
  if (file[id].kind != Expression::Kind::Name || std::ranges::find(kRoots, root) == std::end(kRoots) ||
      frame.names.contains(root))
    return std::nullopt;
  std::string name(root);
  for (std::size_t i = parts.size(); i-- > 0;) (name += ".") += parts[i];
  return name;
}

Result<Value> Evaluator::attribute_value(const Expression& expression, Frame& frame) {
  // The expression itself is not at hand by its id; its base is, and the rest is one name.
  if (auto base = dotted_name(*frame.file, expression.operands[0], frame)) {
    return qualified(*base + "." + std::string(expression.name));
  }
  const Expression& left = (*frame.file)[expression.operands[0]];
  if (left.kind == Expression::Kind::Name && std::ranges::find(kRoots, left.name) != std::end(kRoots) &&
      !frame.names.contains(left.name))
    return qualified(std::string(left.name) + "." + std::string(expression.name));
  XYNTRA_TRY(const Value base, evaluate(expression.operands[0], frame));
  if (base.why_unreadable() != nullptr) return base;
  const std::string name(expression.name);
  if (const auto* instance = std::get_if<std::shared_ptr<Instance>>(&base.held))
    return attribute(*instance, expression.name);
  if (const Sequence* sequence = base.sequence(); sequence != nullptr && sequence->named != nullptr) {
    for (std::size_t i = 0; i < sequence->items.size() && i < sequence->named->fields.size(); ++i) {
      if (sequence->named->fields[i].name == name) return sequence->items[i];
    }
  }
  if (base.tensor() != nullptr ||
      (base.item() != nullptr && std::holds_alternative<aten::Placement>(base.item()->value))) {
    Arguments arguments;
    arguments.name = expression.name;
    arguments.values = {base};
    if (name == "tolist") {
      Callable callable;
      callable.name = "tolist";
      callable.bound = std::make_shared<Value>(base);
      return Value(std::move(callable));
    }
    if (name == "type" && base.tensor() == nullptr) return Value(std::string("cpu"));  // of a device
    const Builtin builtin = builtin_named(name, &arguments.values);
    if (builtin != nullptr) return (this->*builtin)(arguments);
  }
  return unsupported("attribute '" + name + "' of " + kind_of(base));
}

// torch.add, ops.prim.min, CONSTANTS.c3, __torch__.torch.nn.functional.relu
Result<Value> Evaluator::qualified(const std::string& name) {
  constexpr std::string_view kConstants = "CONSTANTS.c", kNew = ".__new__";
  Callable callable;
  callable.name = name;
  if (name.starts_with("CONSTANTS")) {
    const auto index = name.starts_with(kConstants)
                           ? parse_u64(std::string_view(name).substr(kConstants.size()))
                           : std::nullopt;
    const Pickle& constants = library_.constants();
    const PickleValue& all = constants[constants.root];
    if (!index || all.kind != PickleValue::Kind::Tuple || *index >= all.items.size())
      return bad_model("the archive has no constant '" + name + "'");
    return stored(constants, all.items[*index], "constant");
  }
  if (!name.starts_with("__torch__")) return Value(std::move(callable));
  const bool makes = name.ends_with(kNew);
  const std::string_view wanted = std::string_view(name).substr(0, name.size() - (makes ? kNew.size() : 0));
  XYNTRA_TRY(const Library::Definition found, library_.find(wanted));
  callable.file = found.file;
  callable.function = found.function;
  callable.type = found.type;
  if (makes) callable.function = nullptr;
  if (callable.function == nullptr && callable.type == nullptr)
    return bad_model("the archive has no '" + std::string(wanted) + "' in its code");
  callable.name = std::string(wanted);
  callable.makes_empty = makes;
  return Value(std::move(callable));
}

Result<Value> Evaluator::subscript(const Value& base, const Value& index) {
  if (base.why_unreadable() != nullptr) return base;
  if (const Mapping* mapping = base.mapping()) {
    XYNTRA_TRY(const Value* entry, find_entry(*mapping, index));
    if (entry == nullptr) return raise("the dict has no such key");
    return *entry;
  }
  const aten::Number* number = index.number();
  if (number == nullptr || number->kind == aten::NumberKind::Float)
    return unsupported(kind_of(index) + " as an index of " + kind_of(base));
  if (!number->is_whole()) return unsupported("an index that only running tells");
  const auto position = [&](std::size_t count) -> Result<std::size_t> {
    const auto size = static_cast<std::int64_t>(count);
    const std::int64_t from_start = number->whole() < 0 ? number->whole() + size : number->whole();
    if (from_start < 0 || from_start >= size)
      return raise("index " + std::to_string(number->whole()) + " of a list of " + std::to_string(count));
    return static_cast<std::size_t>(from_start);
  };
  if (const Sequence* sequence = base.sequence()) {
    XYNTRA_TRY(const std::size_t at, position(sequence->items.size()));
    return sequence->items[at];
  }
  if (const std::string* text = base.text()) {
    XYNTRA_TRY(const std::size_t at, position(text->size()));
    return Value(text->substr(at, 1));
  }
  return unsupported("an index of " + kind_of(base));
}

// annotate(T, x) and what is like it have a type in the first place, which is no value.
Result<Value> Evaluator::call_with_type(std::string_view name, const Expression& expression, Frame& frame) {
  if (name == "uninitialized") return Value::unreadable("not initialised on this path");
  if (name == "isinstance") {
    if (expression.operands.size() != 3) return bad_model("isinstance() takes two arguments");
    XYNTRA_TRY(const Value value, evaluate(expression.operands[1], frame));
    XYNTRA_TRY(const bool is, is_instance(value, *frame.file, expression.operands[2]));
    return Value::of(is);
  }
  if (expression.operands.size() != 3) return bad_model(std::string(name) + "() takes two arguments");
  XYNTRA_TRY(Value value, evaluate(expression.operands[2], frame));
  // annotate(number, x) of a tensor is its number.
  const Expression& type = (*frame.file)[expression.operands[1]];
  if (value.tensor() == nullptr || type.kind != Expression::Kind::Name) return value;
  Arguments arguments{name, {value}, {}};
  if (type.name == "int") return to_int(arguments);
  if (type.name == "float") return to_float(arguments);
  return type.name == "number" ? to_number(arguments) : Result<Value>(std::move(value));
}

Result<Value> Evaluator::call(const Expression& expression, Frame& frame) {
  constexpr std::string_view kWithType[] = {"annotate", "unchecked_cast", "uninitialized", "isinstance"};
  const Expression& callee = (*frame.file)[expression.operands[0]];
  if (callee.kind == Expression::Kind::Name && !frame.names.contains(callee.name) &&
      std::ranges::find(kWithType, callee.name) != std::end(kWithType))
    return call_with_type(callee.name, expression, frame);
  XYNTRA_TRY(const Value function, evaluate(expression.operands[0], frame));
  Values values;
  Keywords keywords;
  for (std::size_t i = 0; i < expression.names.size(); ++i) {
    XYNTRA_TRY(Value value, evaluate(expression.operands[i + 1], frame));
    if (expression.names[i].empty()) {
      values.push_back(std::move(value));
    } else {
      keywords.emplace_back(expression.names[i], std::move(value));
    }
  }
  if (function.why_unreadable() != nullptr) return function;
  if (function.callable() == nullptr) return bad_model(kind_of(function) + " is called");
  return call_function(*function.callable(), std::move(values), std::move(keywords));
}

Result<Value> Evaluator::call_function(const Callable& callable, Values values, Keywords keywords) {
  if (callable.function != nullptr) return invoke(callable, std::move(values), keywords);
  if (callable.type != nullptr) return make_object(callable, std::move(values), keywords);
  XYNTRA_CHECK_OK(step());
  Arguments arguments;
  if (callable.bound) values.insert(values.begin(), *callable.bound);
  arguments.values = std::move(values);
  arguments.keywords = std::move(keywords);
  const std::string_view name = callable.name;
  constexpr std::string_view kTorch = "torch.", kPrim = "ops.prim.", kOps = "ops.";
  const std::size_t prefix = name.starts_with(kTorch)  ? kTorch.size()
                             : name.starts_with(kPrim) ? kPrim.size()
                                                       : 0;
  arguments.name = name.substr(prefix);
  const auto is_unreadable = [](const Value& value) { return value.why_unreadable() != nullptr; };
  const bool lost = keeps_missing() && std::ranges::any_of(arguments.values, is_unreadable);
  if (prefix != 0 || callable.bound || name.find('.') == std::string_view::npos) {
    if (const Builtin builtin = builtin_named(arguments.name, &arguments.values))
      return lost ? Value::unreadable("made of what is missing") : (this->*builtin)(arguments);
  }
  if (name.starts_with(kTorch)) return aten_call("aten::" + std::string(arguments.name), arguments);
  if (name.starts_with(kOps)) {
    std::string target(name.substr(kOps.size()));
    const std::size_t dot = target.find('.');
    if (dot == std::string::npos) return bad_model("'" + std::string(name) + "' is called");
    return aten_call(target.substr(0, dot) + "::" + target.substr(dot + 1), arguments);
  }
  return unsupported("'" + std::string(name) + "' is called, which is not known");
}

// T.__new__(T) makes an object without attributes; T(…) one of a NamedTuple.
Result<Value> Evaluator::make_object(const Callable& type, Values values, const Keywords& keywords) {
  if (type.type->base == "NamedTuple") {
    if (!keywords.empty() || values.size() != type.type->fields.size())
      return unsupported(type.name + "() with " + std::to_string(values.size()) + " arguments by position");
    auto tuple = new_sequence(true, std::move(values));
    tuple->named = type.type;
    return Value(std::move(tuple));
  }
  if (!type.makes_empty) return unsupported(type.name + " is called, which is a class");
  auto instance = std::make_shared<Instance>();
  instance->file = type.file;
  instance->type = type.type;
  instance->type_name = type.name;
  instance->birth = ++births_;
  return Value(std::move(instance));
}

}  // namespace xyntra::torchscript
