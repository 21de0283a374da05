#include "frontends/aten/importer.h"

#include <algorithm>

#include "frontends/aten/overloads.h"
#include "frontends/aten/scalar_types.h"
#include "support/text/text.h"

namespace xyntra::aten {
namespace {

constexpr std::size_t kShownName = 120;

std::string shown(std::string_view name) {
  return name.size() <= kShownName ? std::string(name)
                                   : std::string(cut_at_character(name, kShownName)) + "…";
}

// "aten::add" of "aten::add.*".
std::string_view without_any(std::string_view target) {
  return target.ends_with(".*") ? target.substr(0, target.size() - 2) : target;
}

// Whether an argument can be what the parameter declares; None stands for anything optional.
bool takes(const Parameter& parameter, const Item& item) {
  if (std::holds_alternative<Unreadable>(item.value)) return true;  // which the call that reads it says
  if (item.is_none()) return parameter.optional || parameter.has_default || parameter.elements_optional;
  const Number* number = item.number();
  if (parameter.is_list) return item.list() != nullptr || (number != nullptr && parameter.one_for_all);
  switch (parameter.kind) {
    case ParameterKind::Tensor: return item.tensor() != nullptr;
    case ParameterKind::Int: return number != nullptr && number->kind != NumberKind::Float;
    case ParameterKind::Float:
    case ParameterKind::Bool:
    case ParameterKind::Scalar: return number != nullptr;
    case ParameterKind::String: return item.text() != nullptr;
    case ParameterKind::DType: return std::holds_alternative<DType>(item.value);
    case ParameterKind::Placement:  // layouts and memory formats are numbers in TorchScript, devices are not
      return std::holds_alternative<Placement>(item.value) ||
             (number != nullptr && number->kind == NumberKind::Int && parameter.name != "device");
    case ParameterKind::Generator:
    case ParameterKind::Any: return true;
  }
  return true;
}

void collect_missing(const Graph& graph, std::map<std::string, std::vector<std::string>>& found, int depth) {
  constexpr int kMaxDepth = 64;
  for (const Node& node : graph.nodes) {
    if (resolve_target(node.target).candidates.empty()) found[node.target].push_back(node.origin);
    for (const NamedArgument& argument : node.arguments) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&argument.argument.value);
      if (body != nullptr && *body != nullptr && depth < kMaxDepth) collect_missing(**body, found, depth + 1);
    }
  }
}

}  // namespace

std::map<std::string, std::vector<std::string>> missing_overloads(const Program& program) {
  std::map<std::string, std::vector<std::string>> found;
  collect_missing(program.graph, found, 0);
  return found;
}

Importer::Importer(const Program& program, const ImportOptions& options)
    : program_(program),
      options_(options),
      nodes_left_(options.max_nodes),
      operations_left_(options.max_nodes) {
  work_.budget = options.budget.get();
}

// A graph of nothing but the nodes that have no definition, for `xyntra check` to list.
Module Importer::skeleton_of_missing() const {
  Module module;
  for (const auto& [target, origins] : missing_overloads(program_)) {
    for (const std::string& origin : origins)
      module.graph.add_node(target, {}, {module.graph.unique_name("missing")}, {}, origin);
  }
  return module;
}

Result<Module> Importer::import_main() {
  if (options_.undefined_ops == UndefinedOps::Keep) {
    Module missing = skeleton_of_missing();
    if (missing.graph.node_count() != 0) return missing;
  }
  Scope scope("u", work_, nullptr);
  for (const std::string& name : program_.output_names) scope.builder.reserve(name);
  module_.warnings = program_.warnings;
  module_.symbols = program_.symbols;
  module_.metadata = program_.metadata;
  XYNTRA_CHECK_OK(define_inputs(scope));
  XYNTRA_CHECK_OK(import_nodes(program_.graph, scope));
  XYNTRA_CHECK_OK(define_outputs(scope));
  module_.graph = std::move(scope.builder.graph());
  return std::move(module_);
}

Status Importer::charge(std::int64_t operations, std::int64_t bytes) {
  operations_left_ -= operations;
  bytes_left_ -= bytes;
  if (operations_left_ < 0)
    return limit_error("its calls become more than " + std::to_string(options_.max_nodes) + " operations");
  if (bytes_left_ < 0)
    return limit_error("constants that its calls make take more than " + std::to_string(kMostConstantBytes) +
                       " bytes");
  return {};
}

std::string Importer::value_name(ValueIndex value) const {
  return value.index < program_.values.size() ? program_.values[value.index] : std::string();
}

// ---- inputs and outputs

Status Importer::define_inputs(Scope& scope) {
  xyntra::Graph& graph = scope.builder.graph();
  for (const auto& [index, input] : program_.inputs) scope.builder.reserve(input.name);
  for (const ValueIndex index : program_.graph.inputs) {
    const auto input = program_.inputs.find(index);
    if (input == program_.inputs.end()) continue;
    if (graph.find(input->second.name).valid() || input->second.name.empty())
      return bad_model("input '" + shown(input->second.name) + "' is defined twice, or has no name");
    const ValueId made = graph.add_input(input->second.name, input->second.type);
    const auto variable = std::make_shared<Variable>(Variable{made, &scope});
    if (!input->second.is_number) {
      XYNTRA_CHECK_OK(bind(index, Item(variable), scope));
      continue;
    }
    const DType dtype = input->second.type.dtype;
    const NumberKind kind = is_float(dtype)  ? NumberKind::Float
                            : is_bool(dtype) ? NumberKind::Bool
                                             : NumberKind::Int;
    XYNTRA_CHECK_OK(bind(index, Item(Number{kind, variable}), scope));
  }
  for (const auto& [index, tensor] : program_.constants) {
    std::string name = value_name(index);
    name = scope.builder.fresh_name(name.empty() ? "constant" : name);
    const auto variable = std::make_shared<Variable>(Variable{graph.add_constant(name, tensor), &scope});
    if (const auto state = program_.states.find(index); state != program_.states.end())
      variable->state = state->second;
    XYNTRA_CHECK_OK(bind(index, Item(variable), scope));
  }
  for (const auto& [index, argument] : program_.fixed) {
    XYNTRA_TRY(Item item, evaluate(argument, scope));
    XYNTRA_CHECK_OK(bind(index, std::move(item), scope));
  }
  for (const ValueIndex index : program_.graph.inputs) {
    if (!scope.items.contains(index))
      return bad_model("input '" + shown(value_name(index)) + "' is neither given nor a constant");
  }
  return {};
}

namespace {

// Lists and tuples within an output, as one list of what they hold.
void collect_leaves(const Item& item, std::vector<const Item*>& leaves) {
  if (const Item::List* list = item.list()) {
    for (const Item& element : *list) collect_leaves(element, leaves);
  } else {
    leaves.push_back(&item);
  }
}

const Overload& output_overload() {
  static const Overload kOutput{.schema = {.name = "output", .parameters = {}, .returns = {}},
                                .text = "output"};
  return kOutput;
}

}  // namespace

Status Importer::define_outputs(Scope& scope) {
  const Node node{.target = "output", .arguments = {}, .results = {}, .origin = "output"};
  Call call(*this, scope, node, output_overload(), {});
  std::vector<Item> items;
  for (const Argument& output : program_.graph.outputs) {
    XYNTRA_TRY(Item item, evaluate(output, scope));
    items.push_back(std::move(item));
  }
  std::vector<const Item*> leaves;
  for (const Item& item : items) collect_leaves(item, leaves);
  xyntra::Graph& graph = scope.builder.graph();
  std::set<std::string> taken;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    ValueId value;
    if (const VariableRef* variable = leaves[i]->tensor()) {
      value = call.read(*variable);
    } else if (const Number* number = leaves[i]->number()) {
      constexpr DType kDTypes[] = {DType::Bool, DType::I64, DType::F64};
      value = call.as_value(*number, kDTypes[static_cast<std::size_t>(number->kind)]);
    } else if (const auto* unreadable = std::get_if<Unreadable>(&leaves[i]->value)) {
      return unsupported("output " + std::to_string(i) + " is " + unreadable->what);
    } else {
      continue;  // None, strings: nothing that runs makes them
    }
    if (call.failed()) return failure(*call.error());
    std::string name = i < program_.output_names.size() ? program_.output_names[i] : std::string();
    if (name.empty()) name = graph.value(value).name;
    if (graph.value(value).name != name || !graph.value(value).producer.valid() || taken.contains(name)) {
      if (taken.contains(name) || graph.find(name).valid()) name = scope.builder.fresh_name(name);
      NodeDraft draft;
      draft.op = "Identity";
      draft.inputs = {value};
      draft.outputs = {name};
      draft.origin = "output";
      XYNTRA_TRY(const NodeId id, scope.builder.add(std::move(draft)));
      value = graph.output_of(id);
    }
    taken.insert(name);
    graph.outputs.push_back(value);
  }
  if (graph.outputs.empty()) return bad_model("the program returns no tensor");
  std::set<const Variable*> seen;
  for (const auto& [index, item] : scope.items) {
    const VariableRef* variable = item.tensor();
    if (variable == nullptr || (*variable)->changes == 0 || !seen.insert(variable->get()).second) continue;
    const auto input = program_.inputs.find(index);
    const bool is_input = input != program_.inputs.end();
    if (!is_input && (*variable)->state.empty()) continue;
    module_.warnings.push_back(
        (is_input ? "input '" + shown(input->second.name) : "buffer '" + shown((*variable)->state)) +
        "' is changed by the model; the change is not kept after a run");
  }
  return {};
}

// ---- nodes

namespace {

void take_in(Item& item, Scope& scope) {
  if (const VariableRef* variable = item.tensor()) {
    if ((*variable)->scope == nullptr) (*variable)->scope = &scope;
  } else if (auto* list = std::get_if<Item::List>(&item.value)) {
    for (Item& element : *list) take_in(element, scope);
  }
}

}  // namespace

Status Importer::import_nodes(const Graph& graph, Scope& scope) {
  for (const Node& node : graph.nodes) {
    if (--nodes_left_ < 0) return limit_error("more than " + std::to_string(options_.max_nodes) + " calls");
    if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
    Status imported = import_node(node, scope);
    if (!imported)
      return failure(std::move(imported).error().at_node(shown(node.origin), shown(node.target)));
  }
  return {};
}

std::unique_ptr<Scope> Importer::new_main_scope() { return std::make_unique<Scope>("u", work_, nullptr); }

Status Importer::import_node(const Node& node, Scope& scope) {
  XYNTRA_TRY(const std::vector<NamedItem> given, evaluate_arguments(node, scope));
  XYNTRA_TRY(Item made, call(node, given, scope));
  return bind(node, std::move(made), scope);
}

Result<Item> Importer::call(const Node& node, const std::vector<NamedItem>& given, Scope& scope) {
  const Target target = resolve_target(node.target);
  if (target.candidates.empty())
    return unsupported("overload '" + shown(without_any(node.target)) + "' is not supported");
  XYNTRA_TRY(const Overload* overload, choose(node, given, target, scope));
  XYNTRA_TRY(Item::List arguments, arguments_of(given, *overload, scope));
  const Item self = arguments.empty() ? Item() : arguments[0];
  Call call(*this, scope, node, *overload, std::move(arguments));
  Item made = overload->translate(call);
  if (target.in_place && !call.failed()) {
    if (self.tensor() == nullptr || made.tensor() == nullptr)
      return unsupported("a change of what is no tensor");
    const ValueId before = call.read(*self.tensor());
    const ValueId after = call.cast(call.read(*made.tensor()), call.dtype_of(before));
    if (after != before) call.write(*self.tensor(), after);
    made = self;
  }
  if (call.failed()) return failure(*call.error());
  take_in(made, scope);
  return made;
}

Result<std::vector<NamedItem>> Importer::evaluate_arguments(const Node& node, Scope& scope) {
  std::vector<NamedItem> items;
  for (const NamedArgument& argument : node.arguments) {
    XYNTRA_TRY(Item item, evaluate(argument.argument, scope));
    items.push_back({argument.name, std::move(item)});
  }
  return items;
}

Result<const Overload*> Importer::choose(const Node& node, const std::vector<NamedItem>& given,
                                         const Target& target, Scope& scope) {
  if (target.candidates.size() == 1) return target.candidates[0];
  for (const Overload* candidate : target.candidates) {
    auto arguments = arguments_of(given, *candidate, scope);
    if (!arguments) continue;
    bool fits = true;
    for (std::size_t i = 0; i < arguments->size(); ++i)
      fits = fits && takes(candidate->schema.parameters[i], (*arguments)[i]);
    if (fits) return candidate;
  }
  return unsupported("no overload of '" + shown(without_any(node.target)) + "' takes these arguments");
}

Result<Item::List> Importer::arguments_of(const std::vector<NamedItem>& arguments, const Overload& overload,
                                          Scope& scope) {
  const std::vector<Parameter>& parameters = overload.schema.parameters;
  const bool any_number =
      !parameters.empty() && parameters.back().name == "rest";  // of what is given by position
  Item::List items(parameters.size());
  std::vector<bool> given(parameters.size(), false);
  Item::List rest;
  std::size_t position = 0;
  for (const NamedItem& argument : arguments) {
    std::size_t at = position;
    if (!argument.name.empty()) {
      const auto found = std::ranges::find(parameters, argument.name, &Parameter::name);
      at = static_cast<std::size_t>(found - parameters.begin());
      if (at == parameters.size() && argument.name == "self") at = 0;  // the first of dropout_ and its kind
      if (at == parameters.size() && !any_number)
        return bad_model("the schema has no argument '" + shown(argument.name) + "'");
    } else {
      ++position;
    }
    if (any_number && at + 1 >= parameters.size()) {
      rest.push_back(argument.item);
      continue;
    }
    if (at >= parameters.size() || (argument.name.empty() && parameters[at].keyword_only))
      return bad_model("it has more arguments than its schema");
    if (given[at]) return bad_model("argument '" + parameters[at].name + "' is given twice");
    given[at] = true;
    items[at] = argument.item;
    // TorchScript has dtypes as numbers.
    const Number* number = argument.item.number();
    if (parameters[at].kind == ParameterKind::DType && number != nullptr && number->is_whole() &&
        number->kind == NumberKind::Int) {
      const auto dtype = dtype_of_scalar_type(number->whole());
      if (!dtype) return unsupported("torch's dtype of number " + std::to_string(number->whole()));
      items[at] = *dtype;
    }
  }
  if (any_number) {
    items.back() = Item(std::move(rest));
    given.back() = true;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (given[i]) continue;
    if (!parameters[i].has_default && !parameters[i].optional)
      return bad_model("argument '" + parameters[i].name + "' is missing");
    XYNTRA_TRY(items[i], evaluate(parameters[i].default_value, scope));
  }
  return items;
}

Status Importer::bind(const Node& node, Item made, Scope& scope) {
  if (node.results.empty()) return {};
  if (node.results.size() == 1 && !node.results[0].is_list) {
    const auto& values = node.results[0].values;
    if (values.size() != 1)
      return bad_model("a result that is one value has " + std::to_string(values.size()));
    // A body of one result returns a list of it, which a program may take as the thing itself.
    if (node.target.starts_with("higher_order::") && made.list() != nullptr && made.list()->size() == 1) {
      Item only = made.list()->front();
      made = std::move(only);
    }
    return values[0].valid() ? bind(values[0], std::move(made), scope) : Status();
  }
  Item::List parts;
  if (node.results.size() == 1) {
    parts.push_back(std::move(made));
  } else {
    if (made.list() == nullptr || made.list()->size() < node.results.size())
      return bad_model("the call has " + std::to_string(node.results.size()) +
                       " results, which it does not make");
    parts = *made.list();
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    const CallResult& result = node.results[i];
    if (!result.is_list) {
      if (result.values.size() != 1) return bad_model("a result that is one value has several");
      if (result.values[0].valid()) XYNTRA_CHECK_OK(bind(result.values[0], std::move(parts[i]), scope));
      continue;
    }
    const Item::List* list = parts[i].list();
    if (list == nullptr || list->size() != result.values.size()) {
      return bad_model("the call makes a list of " + std::to_string(list == nullptr ? 0 : list->size()) +
                       ", the program expects " + std::to_string(result.values.size()));
    }
    for (std::size_t k = 0; k < list->size(); ++k) {
      if (result.values[k].valid()) XYNTRA_CHECK_OK(bind(result.values[k], (*list)[k], scope));
    }
  }
  return {};
}

Status Importer::bind(ValueIndex value, Item item, Scope& scope) {
  if (value.index >= program_.values.size()) return bad_model("a value that the program does not list");
  take_in(item, scope);
  scope.items[value] = std::move(item);
  return {};
}

Result<Item> Importer::evaluate(const Argument& argument, Scope& scope, int depth) {
  if (depth > options_.max_nesting) return limit_error("lists are nested too deep");
  const auto visit = [&](const auto& value) -> Result<Item> {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, ValueIndex>) {
      for (Scope* s = &scope; s != nullptr; s = s->around) {
        if (const auto found = s->items.find(value); found != s->items.end()) return found->second;
      }
      return bad_model("value '" + shown(value_name(value)) + "' is used before it is made");
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> ||
                         std::is_same_v<T, double>) {
      return Item(Number::of(value));
    } else if constexpr (std::is_same_v<T, Argument::List>) {
      Item::List list;
      for (const Argument& element : value) {
        XYNTRA_TRY(Item item, evaluate(element, scope, depth + 1));
        list.push_back(std::move(item));
      }
      return Item(std::move(list));
    } else {
      Item item;
      item.value = value;
      return item;
    }
  };
  return std::visit(visit, argument.value);
}

// ---- variables

Result<ValueId> Importer::capture(Scope& scope, ValueId outside) {
  for (const Scope::Capture& known : scope.captures) {
    if (known.outside == outside) return known.inside;
  }
  const Value& value = scope.around->builder.graph().value(outside);
  // Constants are copied, their bytes shared, so that what follows from them is known in the body.
  const std::string name = scope.builder.fresh_name(value.name);
  const ValueId inside = value.is_constant() ? scope.builder.graph().add_constant(name, value.constant)
                                             : scope.builder.graph().add_input(name, value.type);
  scope.captures.push_back({outside, inside});
  return inside;
}

Result<ValueId> Importer::read(Call& call, Variable& variable) {
  Scope& scope = call.scope();
  if (variable.scope == nullptr) variable.scope = &scope;
  // A value of a scope around: through each of the scopes between.
  if (variable.scope != &scope) {
    std::vector<Scope*> way;
    for (Scope* s = &scope; s != variable.scope; s = s->around) {
      if (s == nullptr) return bad_model("a value of a body is used outside of it");
      way.push_back(s);
    }
    if (variable.base != nullptr && variable.base_changes != variable.base->changes)
      return unsupported("a view that is read in a body after what it looks at was changed");
    ValueId value = variable.value;
    while (!way.empty()) {
      XYNTRA_TRY(value, capture(*way.back(), value));
      way.pop_back();
    }
    return value;
  }
  if (variable.uncertain)
    return unsupported("a tensor that perhaps shares memory with one that was changed is read again");
  if (variable.base == nullptr) return variable.value;
  XYNTRA_TRY(const ValueId base, read(call, *variable.base));
  if (variable.base_changes == variable.base->changes) return variable.value;
  if (variable.perhaps)
    return unsupported("a tensor that perhaps shares memory with one that was changed is read again");
  variable.value = variable.derive(call, base);
  variable.base_changes = variable.base->changes;
  ++variable.changes;
  return variable.value;
}

Status Importer::write(Call& call, const VariableRef& variable, ValueId value) {
  if (variable->scope != &call.scope()) return unsupported("a body changes a tensor of the graph around it");
  XYNTRA_TRY(const ValueId before, read(call, *variable));
  const Type& old_type = call.type(before);
  if (old_type.shape && call.type(value).shape && *old_type.shape != *call.type(value).shape)
    value = call.op("Expand", {value, call.sizes_value(call.shape_numbers(before))});
  if (variable->base != nullptr && variable->perhaps) {
    for (Variable* shared = variable->base.get(); shared != nullptr; shared = shared->base.get())
      shared->uncertain = true;
    variable->base = nullptr;
  }
  if (variable->base != nullptr) {
    if (!variable->write_back) return unsupported("a change of a view that cannot be written through");
    XYNTRA_TRY(const ValueId base, read(call, *variable->base));
    const ValueId changed = variable->write_back(call, base, value);
    if (call.failed()) return failure(*call.error());
    XYNTRA_CHECK_OK(write(call, variable->base, changed));
    variable->base_changes = variable->base->changes;
  }
  variable->value = value;
  ++variable->changes;
  return {};
}

// ---- bodies

std::unique_ptr<Scope> Importer::new_scope(Scope& around) {
  return std::make_unique<Scope>("u" + std::to_string(scopes_++) + "s", work_, &around);
}

Result<Item::List> Importer::inline_body(const Graph& graph, Item::List arguments, Scope& scope) {
  if (graph.inputs.size() != arguments.size())
    return bad_model("a body of " + std::to_string(graph.inputs.size()) + " inputs is given " +
                     std::to_string(arguments.size()));
  if (++depth_ > options_.max_nesting)
    return limit_error("more than " + std::to_string(options_.max_nesting) + " levels of nesting");
  for (std::size_t i = 0; i < arguments.size(); ++i)
    XYNTRA_CHECK_OK(bind(graph.inputs[i], std::move(arguments[i]), scope));
  XYNTRA_CHECK_OK(import_nodes(graph, scope));
  Item::List outputs;
  for (const Argument& output : graph.outputs) {
    XYNTRA_TRY(Item item, evaluate(output, scope));
    outputs.push_back(std::move(item));
  }
  --depth_;
  return outputs;
}

Result<Importer::Body> Importer::import_body(const Graph& graph, Item::List arguments,
                                             std::unique_ptr<Scope> scope) {
  XYNTRA_TRY(Item::List outputs, inline_body(graph, std::move(arguments), *scope));
  return Body{std::move(scope), std::move(outputs)};
}

Result<Module> import_program(const Program& program, const ImportOptions& options) {
  return Importer(program, options).import_main();
}

}  // namespace xyntra::aten
