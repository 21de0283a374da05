#include "ops/infer.h"

#include <algorithm>

#include "ops/operand_shapes.h"
#include "ops/rules.h"

namespace xyntra {

InferenceContext::InferenceContext(const OpDef& def, const Node& node, std::span<const ValueFacts> inputs,
                                   std::string fresh_prefix, const SubgraphInference* subgraph)
    : OpContext(def, node, inputs),
      fresh_prefix_(std::move(fresh_prefix)),
      subgraph_(subgraph),
      outputs_(node.outputs.size()) {}

Dim InferenceContext::unknown_dim(std::size_t output, std::size_t axis) const {
  return Dim::symbol(fresh_prefix_ + "_" + std::to_string(output) + "_" + std::to_string(axis));
}

Shape InferenceContext::unknown_shape(std::size_t output, std::size_t rank) const {
  Shape shape;
  for (std::size_t axis = 0; axis < rank; ++axis) shape.push_back(unknown_dim(output, axis));
  return shape;
}

namespace {

Status check_count(const OpContext& context, const std::vector<Parameter>& parameters, std::size_t count,
                   const char* what) {
  std::size_t most = parameters.size();
  if (!parameters.empty() && parameters.back().variadic) most = SIZE_MAX;
  if (count > most) {
    return context.fail("has " + std::to_string(count) + " " + what + ", at most " + std::to_string(most) +
                        " are defined");
  }
  return {};
}

const Parameter& parameter_at(const std::vector<Parameter>& parameters, std::size_t i) {
  return parameters[std::min(i, parameters.size() - 1)];
}

std::string list_dtypes(DTypeSet set) {
  std::string text;
  for (int bit = 0; bit < 32; ++bit) {
    if ((set >> bit & 1) != 0)
      text += (text.empty() ? "" : ", ") + std::string(name_of(static_cast<DType>(bit)));
  }
  return text;
}

Status check_attributes(const OpContext& context) {
  for (const auto& [name, attribute] : context.node().attributes) {
    const AttributeSpec* spec = context.def().attribute(name);
    if (spec == nullptr) return context.fail("has no attribute '" + name + "'");
    if (spec->kind != attribute_kind(attribute)) {
      return context.fail("attribute '" + name + "' must be of kind " + spec->kind + ", not " +
                          attribute_kind(attribute));
    }
    const auto* tensor = std::get_if<Tensor>(&attribute);
    if (tensor != nullptr && tensor->defined() && is_string(tensor->dtype()))
      return context.fail("attribute '" + name + "' must hold numbers, not strings");
  }
  for (const AttributeSpec& spec : context.def().attributes) {
    if (spec.required && context.node().attributes.count(spec.name) == 0) {
      return context.fail("attribute '" + spec.name + "' is missing");
    }
  }
  return {};
}

using Bindings =
    std::vector<std::pair<std::string, std::pair<DType, std::size_t>>>;  // variable -> dtype, operand

Status check_operand(const OpContext& context, const ValueFacts& facts, std::size_t i, Bindings& bindings) {
  const Parameter& parameter = parameter_at(context.def().inputs, i);
  const bool tensors_only = context.def().formula != nullptr && !context.def().has(kAnyRank);
  if (facts.type.kind == Type::Kind::Unknown) return {};
  if (parameter.type == "value" && (facts.type.is_of_numbers() || !tensors_only)) return {};
  std::string place = "operand " + std::to_string(i) + " (" + parameter.name + ")";
  if (parameter.type == "value" && facts.type.is_tensor())
    return context.fail(place + " must be a tensor of numbers, not " + facts.type.to_string());
  if (!facts.type.is_tensor())
    return context.fail(place + " must be a tensor, not " + facts.type.to_string());
  DType dtype = facts.type.dtype;
  if (auto fixed = dtype_named(parameter.type)) {
    if (dtype == *fixed) return {};
    return context.fail(place + " must be " + parameter.type + ", not " + std::string(name_of(dtype)));
  }
  for (const auto& [variable, bound] : bindings) {
    if (variable != parameter.type) continue;
    if (dtype == bound.first) return {};
    return context.fail(place + " is " + std::string(name_of(dtype)) + " but operand " +
                        std::to_string(bound.second) + " is " + std::string(name_of(bound.first)));
  }
  for (const auto& [variable, allowed] : context.def().variables) {
    if (variable != parameter.type) continue;
    if ((allowed >> static_cast<int>(dtype) & 1) == 0) {
      return context.fail(place + " is " + std::string(name_of(dtype)) + "; allowed are " +
                          list_dtypes(allowed));
    }
  }
  bindings.push_back({parameter.type, {dtype, i}});
  return {};
}

constexpr std::size_t kMaxOperands = 4096;

Result<Bindings> check_operands(const OpContext& context, std::span<const ValueFacts> inputs) {
  const auto& parameters = context.def().inputs;
  XYNTRA_CHECK_OK(check_count(context, parameters, inputs.size(), "operands"));
  XYNTRA_CHECK_OK(check_count(context, context.def().outputs, context.output_count(), "outputs"));
  // Formulas over a list of operands nest once per operand.
  if (context.def().formula != nullptr && inputs.size() > kMaxOperands) {
    return context.fail("has " + std::to_string(inputs.size()) + " operands; at most " +
                        std::to_string(kMaxOperands) + " are possible");
  }
  const auto needed = std::ranges::count(context.def().outputs, false, &Parameter::optional);
  if (static_cast<std::ptrdiff_t>(context.output_count()) < needed) {
    return context.fail("has " + std::to_string(context.output_count()) + " outputs, " +
                        std::to_string(needed) + " are needed");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].optional && !context.has_input(i)) {
      return context.fail("operand " + std::to_string(i) + " (" + parameters[i].name + ") is missing");
    }
  }
  const bool all_variadic_needed =
      !parameters.empty() && parameters.back().variadic && !parameters.back().optional;
  Bindings bindings;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present && all_variadic_needed && i >= parameters.size()) {
      return context.fail("operand " + std::to_string(i) + " (" + parameters.back().name + ") is missing");
    }
    if (inputs[i].present) XYNTRA_CHECK_OK(check_operand(context, inputs[i], i, bindings));
  }
  return bindings;
}

// Would an operand bind this type variable if its own type were known?
bool waits_for_operand(const InferenceContext& context, const std::string& variable) {
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const bool unknown = context.has_input(i) && context.type(i).kind == Type::Kind::Unknown;
    if (unknown && parameter_at(context.def().inputs, i).type == variable) return true;
  }
  return false;
}

// The dtype that an attribute says, whatever the operands are: Cast's `to`.
Result<std::optional<DType>> dtype_by_attribute(const OpContext& context) {
  for (std::string_view name : {"to", "dtype", "output_datatype"}) {
    if (context.def().attribute(name) == nullptr || !context.has_attribute(name)) continue;
    XYNTRA_TRY(const DType dtype, dtype_attribute(context, name, /*strings=*/true));
    return std::optional(dtype);
  }
  return std::optional<DType>();
}

// Types of the outputs as far as signature and attributes alone tell.
Status preset_outputs(InferenceContext& context, const Bindings& bindings, bool rule_applies) {
  const auto& parameters = context.def().outputs;
  for (std::size_t i = 0; i < context.outputs().size(); ++i) {
    const Parameter& parameter = parameter_at(parameters, i);
    Type& type = context.outputs()[i].type;
    if (parameter.type == "value") continue;
    if (auto fixed = dtype_named(parameter.type)) {
      type = Type::tensor(*fixed);
      continue;
    }
    bool is_bound = false;
    type = Type::tensor(DType::F32);  // a variable no operand binds: the rule says
    for (const auto& [variable, bound] : bindings) {
      if (variable != parameter.type) continue;
      type.dtype = bound.first;
      is_bound = true;
    }
    if (is_bound || (rule_applies && !waits_for_operand(context, parameter.type))) continue;
    XYNTRA_TRY(const auto said, dtype_by_attribute(context));
    type = said ? Type::tensor(*said) : Type();
  }
  return {};
}

bool ranks_known(std::span<const ValueFacts> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const ValueFacts& facts) {
    return !facts.present || (facts.type.is_tensor() && facts.type.shape) ||
           (facts.type.kind != Type::Kind::Tensor && facts.type.kind != Type::Kind::Unknown);
  });
}

Result<std::vector<ValueFacts>> infer_closed(const Graph& graph, std::span<const ValueFacts> arguments,
                                             const std::string& prefix, std::vector<ValueFacts>* all,
                                             int depth, InferenceWork& work);

constexpr int kMaxDepth = 64;

// Work per element, and the size of formulas, grow with the rank; no model has more axes than NumPy can hold.
constexpr std::size_t kMaxRank = 64;

Status check_ranks(const OpContext& context, std::span<const ValueFacts> values, const char* what) {
  for (const ValueFacts& facts : values) {
    if (facts.present && facts.type.is_tensor() && facts.type.shape && facts.type.shape->size() > kMaxRank) {
      return context.fail(what + std::string(" has rank ") + std::to_string(facts.type.shape->size()) +
                          "; at most " + std::to_string(kMaxRank) + " is possible");
    }
  }
  return {};
}

Result<std::vector<ValueFacts>> infer_node_at(const OpDef& def, const Node& node,
                                              std::span<const ValueFacts> inputs, const std::string& prefix,
                                              int depth, InferenceWork& work) {
  InferenceContext::SubgraphInference subgraph =
      [&](const Graph& graph, std::span<const ValueFacts> arguments) -> Result<std::vector<ValueFacts>> {
    work.values_left -= static_cast<std::int64_t>(graph.value_count());
    if (work.values_left < 0) return limit_error("types of nested loops take too much work to infer");
    if (work.given != nullptr && depth == 0) (*work.given)[&graph] = {arguments.begin(), arguments.end()};
    return infer_closed(graph, arguments, prefix + "s", nullptr, depth + 1, work);
  };
  InferenceContext context(def, node, inputs, prefix, &subgraph);
  XYNTRA_CHECK_OK(check_attributes(context));
  XYNTRA_TRY(Bindings bindings, check_operands(context, inputs));
  const bool rule_applies = def.has(kAnyRank) || ranks_known(inputs);
  XYNTRA_CHECK_OK(preset_outputs(context, bindings, rule_applies));
  if (rule_applies) {
    XYNTRA_CHECK_OK(check_ranks(context, inputs, "an operand"));
    XYNTRA_CHECK_OK(check_operand_shapes(context));
    XYNTRA_CHECK_OK(def.shape_rule(context));
    XYNTRA_CHECK_OK(check_ranks(context, context.outputs(), "an output"));
  }
  return std::move(context.outputs());
}

// The more precise of a declared and an inferred type; an error when they contradict.
Result<Type> merge_types(const Type& declared, const Type& inferred, const std::string& name) {
  auto clash = [&]() {
    return bad_model("value '" + name + "' is declared as " + declared.to_string() + " but computed as " +
                     inferred.to_string());
  };
  if (declared.kind == Type::Kind::Unknown) return inferred;
  if (inferred.kind == Type::Kind::Unknown) return declared;
  if (declared.kind != inferred.kind) return clash();
  if (!declared.is_tensor()) {
    XYNTRA_TRY(Type element, merge_types(*declared.element, *inferred.element, name));
    return declared.kind == Type::Kind::Sequence ? Type::sequence(element) : Type::optional(element);
  }
  if (declared.dtype != inferred.dtype) return clash();
  if (!declared.shape) return inferred;
  if (!inferred.shape) return declared;
  if (declared.shape->size() != inferred.shape->size()) return clash();
  Shape shape = *inferred.shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Dim& other = (*declared.shape)[i];
    if (shape[i].is_constant() && other.is_constant() && !(shape[i] == other)) return clash();
    if (other.is_constant()) shape[i] = other;
  }
  return Type::tensor(declared.dtype, std::move(shape));
}

Result<std::vector<ValueFacts>> infer_closed(const Graph& graph, std::span<const ValueFacts> arguments,
                                             const std::string& prefix, std::vector<ValueFacts>* all,
                                             int depth, InferenceWork& work) {
  if (depth > kMaxDepth) return limit_error("subgraphs are nested more than 64 deep");
  std::vector<ValueFacts> facts(graph.value_count());
  for (std::size_t i = 0; i < graph.value_count(); ++i) facts[i] = facts_of(graph, ValueId(i));
  for (std::size_t i = 0; i < graph.inputs.size() && i < arguments.size(); ++i) {
    ValueFacts& own = facts[graph.inputs[i].index];
    // What is declared optional may be given as the thing itself.
    bool unwrapped = own.type.kind == Type::Kind::Optional && arguments[i].type.kind != Type::Kind::Optional;
    if (unwrapped && arguments[i].type.kind != Type::Kind::Unknown) own.type = *own.type.element;
    XYNTRA_TRY(Type merged, merge_types(own.type, arguments[i].type, graph.value(graph.inputs[i]).name));
    own = arguments[i];
    own.type = std::move(merged);
  }
  XYNTRA_TRY(auto order, graph.topological_order());
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (work.budget != nullptr) XYNTRA_CHECK_OK(work.budget->check_time());
    const OpDef* def = find_op(node.op);
    if (def == nullptr) {
      Error error;
      error.error_class = ErrorClass::Unsupported;
      error.message = "this operator is not defined";
      return failure(std::move(error).at_node(node.origin, node.op));
    }
    std::vector<ValueFacts> inputs;
    for (ValueId input : node.inputs) {
      inputs.push_back(input.valid() ? facts[input.index] : ValueFacts{{}, {}, {}, false});
    }
    auto outputs = infer_node_at(*def, node, inputs, prefix + std::to_string(id.index), depth, work);
    if (!outputs) return failure(std::move(outputs).error());
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      auto merged = merge_types(graph.value(node.outputs[i]).type, (*outputs)[i].type,
                                graph.value(node.outputs[i]).name);
      if (!merged) return failure(std::move(merged).error().at_node(node.origin, node.op));
      facts[node.outputs[i].index] = std::move((*outputs)[i]);
      facts[node.outputs[i].index].type = std::move(*merged);
    }
  }
  std::vector<ValueFacts> results;
  for (ValueId output : graph.outputs) results.push_back(facts[output.index]);
  if (all != nullptr) *all = std::move(facts);
  return results;
}

void collect_undefined(const Graph& graph, std::map<std::string, std::vector<std::string>>& found,
                       int depth) {
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (find_op(node.op) == nullptr) found[node.op].push_back(node.origin);
    for (const auto& [name, attribute] : node.attributes) {
      const auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (subgraph != nullptr && *subgraph != nullptr && depth < kMaxDepth) {
        collect_undefined(**subgraph, found, depth + 1);
      }
    }
  }
}

}  // namespace

Result<std::vector<ValueFacts>> infer_node(const OpDef& def, const Node& node,
                                           std::span<const ValueFacts> inputs,
                                           const std::string& fresh_prefix, InferenceWork* work) {
  InferenceWork own_work;
  return infer_node_at(def, node, inputs, fresh_prefix, 0, work == nullptr ? own_work : *work);
}

Status infer_types(Graph& graph, const Budget* budget) {
  std::vector<ValueFacts> facts;
  InferenceWork work;
  work.budget = budget;
  XYNTRA_CHECK_OK(infer_closed(graph, {}, "u", &facts, 0, work));
  for (std::size_t i = 0; i < facts.size(); ++i) {
    Value& value = graph.value(ValueId(i));
    value.type = facts[i].type;
    value.elements = facts[i].elements;
  }
  return {};
}

std::map<std::string, std::vector<std::string>> undefined_ops(const Graph& graph) {
  std::map<std::string, std::vector<std::string>> found;
  collect_undefined(graph, found, 0);
  return found;
}

ValueFacts facts_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return {value.type, value.constant, value.elements, true};
}

ValueFacts facts_of(const Datum& datum) {
  ValueFacts facts;
  switch (datum.kind) {
    case Datum::Kind::Absent: facts.present = false; break;
    case Datum::Kind::Tensor:
      facts.type = Type::tensor(datum.tensor.dtype(), shape_of(datum.tensor.dims()));
      facts.constant = datum.tensor;
      break;
    case Datum::Kind::Sequence:
      facts.type = Type::sequence(datum.items.empty() ? Type() : facts_of(datum.items[0]).type);
      break;
    case Datum::Kind::Optional:
      facts.type = Type::optional(datum.items.empty() ? Type() : facts_of(datum.items[0]).type);
      break;
  }
  return facts;
}

}  // namespace xyntra
