// The inputs of the graph, which are the parameters of `forward`, and its outputs, which are the tensors that it returns.
//
//   def forward(self, x: Tensor, sr: int, mask: Optional[Tensor]=None, hx: Tuple[Tensor, Tensor])
//
// A tensor is an input whose shape the caller says; an int, float, bool or string is fixed by the caller or has its default; an optional
// tensor is there when the caller says its shape; tuples and lists are the inputs hx.0, hx.1 and so on, dicts x.KEY.
#include <algorithm>

#include "frontends/torchscript/evaluator.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

constexpr std::size_t kMostListed = 1000;  // tensors of a list that is an input

// What a type says of a parameter, as far as inputs go.
struct ParameterType {
  std::string_view name;  // "Tensor", "int", "List", "Tuple", "Dict"
  std::vector<ExpressionId> arguments;  // of List[…]
  bool optional = false;
};

ParameterType type_of_parameter(const SourceFile& file, ExpressionId id) {
  const Expression& type = file[id];
  if (type.kind != Expression::Kind::Subscript) return {type.name, {}, type.name == "NoneType"};
  const Expression& index = file[type.operands[1]];
  ParameterType made{file[type.operands[0]].name, {}, false};
  made.arguments = index.kind == Expression::Kind::Tuple ? index.operands : std::vector{type.operands[1]};
  if (made.name != "Optional") return made;
  ParameterType inner = type_of_parameter(file, made.arguments[0]);
  inner.optional = true;
  return inner;
}

}  // namespace

const InputHint* Evaluator::hint_for(const std::string& name) {
  if (const auto known = hints_.find(name); known != hints_.end()) return known->second;
  const auto& all = options_.inputs;
  // Unnamed ones are for the inputs that come next and have none of their own.
  const auto named = std::ranges::find(all, name, &InputHint::name);
  const InputHint* found = named == all.end() ? nullptr : &*named;
  if (found == nullptr) {
    std::size_t unnamed = 0;
    for (const InputHint& hint : all) {
      if (hint.name.empty() && unnamed++ == unnamed_taken_) {
        ++unnamed_taken_;
        found = &hint;
        break;
      }
    }
  }
  if (found != nullptr) hints_.emplace(name, found);
  return found;
}

Result<Value> Evaluator::tensor_input(const std::string& name, const InputHint& hint) {
  if (hint.value) {
    return failure(usage_error("input '" + name + "' is a tensor, not a value: give its shape")
                       .value()
                       .with_hint("with --shape " + name + "=1x3x224x224; from C++, C and Python as " + name +
                                  "=f32[1, 3, 224, 224]"));
  }
  const DType dtype = hint.dtype.value_or(DType::F32);
  if (!hint.dtype) guessed_.push_back(name);
  GraphBuilder& builder = main_scope_->builder;
  if (builder.graph().find(name).valid()) return bad_model("two inputs are called '" + name + "'");
  const ValueId id = builder.graph().add_input(name, Type::tensor(dtype, hint.shape));
  auto variable = std::make_shared<aten::Variable>(aten::Variable{id, main_scope_.get()});
  inputs_.emplace_back(name, variable);
  return Value(std::move(variable));
}

Result<Value> Evaluator::input_value(const SourceFile& file, ExpressionId type_id, const std::string& name,
                                     int depth) {
  if (depth > 8) return unsupported("parameter '" + name + "' is nested too deep");
  const ParameterType type = type_of_parameter(file, type_id);
  if (type.name == "Tensor") {
    const InputHint* hint = hint_for(name);
    if (hint != nullptr && (hint->shape || hint->value)) return tensor_input(name, *hint);
    if (type.optional) return Value();
    shapeless_.push_back(name);
    return Value::unreadable("an input without a shape");
  }
  if (type.name == "int" || type.name == "float" || type.name == "bool" || type.name == "str" ||
      type.name == "number") {
    const InputHint* hint = hint_for(name);
    if (hint == nullptr || !hint->value) {
      if (type.optional) return Value();
      valueless_.push_back(name + ": " + std::string(type.name));
      return Value::unreadable("an input without a value");
    }
    const Value given = std::visit(
        [](const auto& one) -> Value {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::string>)
            return Value(one);
          else
            return Value::of(one);
        },
        *hint->value);
    const aten::Number* number = given.number();
    if (type.name == "str" && given.text() != nullptr) return given;
    if (type.name == "float" && number != nullptr && number->kind != aten::NumberKind::Bool)
      return Value::of(number->real());
    if (type.name == "int" && number != nullptr && number->kind == aten::NumberKind::Int) return given;
    if (type.name == "bool" && number != nullptr && number->kind == aten::NumberKind::Bool) return given;
    if (type.name == "number" && number != nullptr) return given;
    return usage_error("input '" + name + "' is of type " + std::string(type.name) + ", and is given " +
                       kind_of(given));
  }
  if (type.name == "Tuple") {
    Values items;
    for (std::size_t i = 0; i < type.arguments.size(); ++i) {
      const std::string item = name + "." + std::to_string(i);
      if (type.optional && i == 0 && !is_hinted(item)) return Value();
      XYNTRA_TRY(Value value, input_value(file, type.arguments[i], item, depth + 1));
      items.push_back(std::move(value));
    }
    return new_tuple(std::move(items));
  }
  if (type.name == "List") {
    Values items;
    while (items.size() < kMostListed && is_hinted(name + "." + std::to_string(items.size()))) {
      XYNTRA_TRY(Value value,
                 input_value(file, type.arguments[0], name + "." + std::to_string(items.size()), depth + 1));
      items.push_back(std::move(value));
    }
    if (!items.empty()) return new_list(std::move(items));
    if (type.optional) return Value();
    shapeless_.push_back(name + ".0");
    return Value::unreadable("an input without a shape");
  }
  if (type.name == "Dict" && type.arguments.size() == 2) {
    auto mapping = std::make_shared<Mapping>();
    for (const InputHint& hint : options_.inputs) {
      if (!hint.name.starts_with(name + ".")) continue;
      XYNTRA_TRY(Value value, input_value(file, type.arguments[1], hint.name, depth + 1));
      mapping->entries.emplace_back(Value(hint.name.substr(name.size() + 1)), std::move(value));
    }
    if (mapping->entries.empty() && type.optional) return Value();
    if (mapping->entries.empty()) shapeless_.push_back(name + ".KEY");
    return Value(std::move(mapping));
  }
  if (type.optional) return Value();
  return unsupported("parameter '" + name + "' of forward is of a type that no input can have");
}

bool Evaluator::is_hinted(const std::string& name) const {
  return hints_.contains(name) ||
         std::ranges::find(options_.inputs, name, &InputHint::name) != options_.inputs.end();
}

Result<Values> Evaluator::bind_parameters(const SourceFile& file, const FunctionDef& function) {
  Values values;
  std::set<std::string_view> names;
  for (std::size_t i = 1; i < function.parameters.size(); ++i) {  // after self
    const Parameter& parameter = function.parameters[i];
    const std::string name(parameter.name);
    names.insert(parameter.name);
    if (parameter.initial.valid() && !is_hinted(name)) {
      const bool any_part = std::ranges::any_of(
          options_.inputs, [&](const InputHint& hint) { return hint.name.starts_with(name + "."); });
      if (!any_part) {
        Frame nothing;
        nothing.file = &file;
        XYNTRA_TRY(Value value, evaluate(parameter.initial, nothing));
        values.push_back(std::move(value));
        continue;
      }
    }
    if (!parameter.type.valid()) return bad_model("parameter '" + name + "' of forward has no type");
    XYNTRA_TRY(Value value, input_value(file, parameter.type, name, 0));
    values.push_back(std::move(value));
  }
  XYNTRA_CHECK_OK(check_hints(function));
  return values;
}

// What the caller says of inputs that are none, and what of the inputs nobody says.
Status Evaluator::check_hints(const FunctionDef& function) {
  std::vector<std::string> known;
  for (std::size_t i = 1; i < function.parameters.size(); ++i)
    known.emplace_back(function.parameters[i].name);
  for (const InputHint& hint : options_.inputs) {
    const bool taken = std::ranges::any_of(hints_, [&](const auto& entry) { return entry.second == &hint; });
    if (taken || hint.name.empty()) continue;
    return usage_error("the model has no input '" + hint.name + "'; it has " +
                       (known.empty() ? "none" : joined(known, ", ")));
  }
  if (!valueless_.empty()) {
    Error error;
    error.error_class = ErrorClass::Usage;
    const std::string name = valueless_[0].substr(0, valueless_[0].find(':'));
    error.message = "the graph is made for given values of what is no tensor: " + joined(valueless_, ", ");
    error.hint = "give it with --value " + name +
                 "=VALUE; from C++, C and Python among the options' inputs: " + name + "=VALUE";
    return failure(std::move(error));
  }
  if (shapeless_.empty()) return {};
  Error error;
  error.error_class = ErrorClass::Usage;
  error.message = "TorchScript does not say the shapes of its inputs: that of " + joined(shapeless_, ", ") +
                  " is not known";
  error.hint = "give it with --shape " + shapeless_[0] +
               "=SIZES, such as 1x3x224x224, or a file with --input; from C++, C and Python among the "
               "options' inputs: " +
               shapeless_[0] + "=f32[1, 3, 224, 224]";
  return failure(std::move(error));
}

// ---- outputs

namespace {

std::string output_name(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace

Status Evaluator::collect_outputs(const Value& value, const std::string& name, int depth) {
  XYNTRA_CHECK_OK(step());
  if (depth > kMostNestedValues)
    return limit_error("outputs are nested more than " + std::to_string(kMostNestedValues) + " deep");
  if (const Sequence* sequence = value.sequence()) {
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
      const std::string own = sequence->named != nullptr && i < sequence->named->fields.size()
                                  ? std::string(sequence->named->fields[i].name)
                                  : std::to_string(i);
      XYNTRA_CHECK_OK(collect_outputs(sequence->items[i], output_name(name, own), depth + 1));
    }
    return {};
  }
  if (const Mapping* mapping = value.mapping()) {
    for (const auto& [key, item] : mapping->entries) {
      XYNTRA_TRY(const std::string own, formatted(key));
      XYNTRA_CHECK_OK(collect_outputs(item, output_name(name, own), depth + 1));
    }
    return {};
  }
  if (value.instance() != nullptr || value.callable() != nullptr)
    return unsupported("the model returns " + kind_of(value));
  if (value.tensor() == nullptr && value.number() == nullptr)
    return {};  // None, strings: nothing that runs makes them
  const std::string plain = name.empty()                                                 ? "output"
                            : name.find_first_not_of("0123456789.") == std::string::npos ? "output." + name
                                                                                         : name;
  outputs_.emplace_back(plain, value);
  return {};
}

Status Evaluator::define_outputs(const Value& returned) {
  XYNTRA_CHECK_OK(collect_outputs(returned, "", 0));
  xyntra::Graph& graph = main_scope_->builder.graph();
  file_ = nullptr;
  path_ = "output";
  for (const auto& [name, value] : outputs_) {
    XYNTRA_CHECK_OK(in_call([&](aten::Call& c) {
      const ValueId made = value.tensor() != nullptr
                               ? c.read(*value.tensor())
                               : c.as_value(*value.number(), dtype_of_kind(value.number()->kind));
      if (c.failed()) return;
      NodeDraft draft;
      draft.op = "Identity";
      draft.inputs = {made};
      draft.outputs = {main_scope_->builder.fresh_name(name)};
      draft.origin = "output";
      const auto node = main_scope_->builder.add(std::move(draft));
      if (!node) {
        c.fail(tl::unexpected<Error>(node.error()));
        return;
      }
      graph.outputs.push_back(graph.output_of(*node));
    }));
  }
  if (graph.outputs.empty()) return bad_model("forward returns no tensor");
  return {};
}

}  // namespace xyntra::torchscript
