// Higher-order operators: calls with graphs among their arguments. What is known now is inlined; the rest become If, Loop and Scan,
// whose bodies take what they read from around them as operands.
#include <algorithm>

#include "frontends/aten/importer.h"
#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

using GraphRef = std::shared_ptr<const Graph>;
constexpr DType kNumberDTypes[] = {DType::Bool, DType::I64, DType::F64};

GraphRef body_of(Call& c, std::string_view name) {
  const auto* graph = std::get_if<GraphRef>(&c.argument(name).value);
  if (graph != nullptr && *graph != nullptr) return *graph;
  c.wrong("argument '" + std::string(name) + "' is no graph");
  return std::make_shared<const Graph>();
}

Item::List list_of(Call& c, std::string_view name) {
  if (const Item::List* list = c.argument(name).list()) return *list;
  if (c.given(name)) c.wrong("argument '" + std::string(name) + "' is no list");
  return {};
}

Item inlined(Call& c, const GraphRef& body, Item::List arguments) {
  if (c.failed()) return {};
  auto outputs = c.importer().inline_body(*body, std::move(arguments), c.scope());
  if (outputs) return Item(std::move(*outputs));
  c.fail(tl::unexpected<Error>(outputs.error()));
  return {};
}

// A tensor or number as a value of the call's graph, and back to what it was.
ValueId value_of(Call& c, const Item& item) {
  if (const VariableRef* variable = item.tensor()) return c.read(*variable);
  if (const Number* number = item.number())
    return c.as_value(*number, kNumberDTypes[static_cast<std::size_t>(number->kind)]);
  return c.unsupported("a body that takes or returns what is neither tensor nor number");
}

Item like(Call& c, const Item& model, ValueId value) {
  if (const Number* number = model.number()) return c.as_number(value, number->kind);
  return value;
}

// A body in a graph of its own.
struct Closed {
  std::unique_ptr<Scope> scope;
  Item::List outputs;
  std::vector<Scope::Capture> captures;  // those that are inputs
};

// `own` inputs come first and hold `arguments`; the other arguments are captured where they are read.
template <class Fill>
std::optional<Closed> closed(Call& c, const Fill& fill) {
  if (c.failed()) return std::nullopt;
  Closed made;
  made.scope = c.importer().new_scope(c.scope());
  Call inner = c.within(*made.scope);
  made.outputs = fill(inner);
  std::vector<ValueId> values;
  for (const Item& output : made.outputs) values.push_back(value_of(inner, output));
  if (inner.failed()) {
    c.fail(tl::unexpected<Error>(*inner.error()));
    return std::nullopt;
  }
  xyntra::Graph& graph = made.scope->builder.graph();
  graph.outputs = std::move(values);
  for (const Scope::Capture& capture : made.scope->captures) {
    if (!graph.value(capture.inside).is_constant()) made.captures.push_back(capture);
  }
  return made;
}

std::shared_ptr<const xyntra::Graph> take_graph(Closed& made) {
  return std::make_shared<const xyntra::Graph>(std::move(made.scope->builder.graph()));
}

// Inputs of a body that stand for these items.
Item::List own_inputs(Call& inner, const Item::List& items, Call& outer, bool slices) {
  xyntra::Graph& graph = inner.scope().builder.graph();
  Item::List made;
  for (const Item& item : items) {
    const ValueId outside = value_of(outer, item);
    Type type = outer.type(outside);
    if (slices && type.shape && !type.shape->empty()) type.shape->erase(type.shape->begin());
    const ValueId input = graph.add_input(inner.scope().builder.fresh_name("state"), std::move(type));
    made.push_back(like(inner, item, input));
    if (auto* variable = std::get_if<VariableRef>(&made.back().value)) (*variable)->scope = &inner.scope();
  }
  return made;
}

Item results_like(Call& c, const Item::List& models, const std::vector<ValueId>& values) {
  Item::List results;
  for (std::size_t i = 0; i < values.size(); ++i) results.push_back(like(c, models[i], values[i]));
  return results;
}

}  // namespace

// ---- one of two

Item cond(Call& c) {
  const GraphRef bodies[] = {body_of(c, "yes"), body_of(c, "no")};
  const Item::List operands = list_of(c, "operands");
  const Number predicate = c.number("predicate");
  if (c.failed()) return {};
  if (predicate.is_known()) return inlined(c, bodies[predicate.real() != 0 ? 0 : 1], operands);
  std::vector<Closed> branches;
  for (const GraphRef& body : bodies) {
    auto made = closed(c, [&](Call& inner) {
      const Item item = inlined(inner, body, operands);
      return item.list() == nullptr ? Item::List{} : *item.list();
    });
    if (!made) return {};
    branches.push_back(std::move(*made));
  }
  if (branches[0].outputs.size() != branches[1].outputs.size())
    return c.wrong("the branches return different numbers of values");
  // Both branches have the same inputs: what either of them takes from around.
  std::vector<ValueId> inputs{c.as_value(predicate, DType::Bool)};
  std::vector<ValueId> outside;
  for (const Closed& branch : branches) {
    for (const Scope::Capture& capture : branch.captures) {
      if (std::ranges::find(outside, capture.outside) == outside.end()) outside.push_back(capture.outside);
    }
  }
  for (Closed& branch : branches) {
    xyntra::Graph& graph = branch.scope->builder.graph();
    graph.inputs.clear();
    for (const ValueId value : outside) {
      const auto known = std::ranges::find(branch.captures, value, &Scope::Capture::outside);
      if (known != branch.captures.end()) {
        graph.inputs.push_back(known->inside);
      } else {
        graph.add_input(branch.scope->builder.fresh_name("unused"), c.type(value));
      }
    }
  }
  inputs.insert(inputs.end(), outside.begin(), outside.end());
  const Item::List models = branches[0].outputs;
  const Attributes attributes{{"then_branch", take_graph(branches[0])},
                              {"else_branch", take_graph(branches[1])}};
  return results_like(c, models, c.op(models.size(), "If", inputs, attributes));
}

// ---- loops

// Loop(trips: none, condition, states…) {body: (iteration, condition, states…, captures…) -> (condition, states…)}
Item while_loop(Call& c) {
  const GraphRef condition = body_of(c, "condition"), body = body_of(c, "body");
  const Item::List states = list_of(c, "states"), additional = list_of(c, "additional");
  const auto with_additional = [&](Item::List items) {
    items.insert(items.end(), additional.begin(), additional.end());
    return items;
  };
  const auto holds = [&](Call& call, const Item::List& items) -> ValueId {
    const Item made = inlined(call, condition, with_additional(items));
    if (call.failed()) return {};
    if (made.list() == nullptr || made.list()->size() != 1)
      return call.wrong("the condition of a loop returns no single value");
    const ValueId truth = call.cast(value_of(call, made.list()->front()), DType::Bool);
    return call.rank(truth) == 0 ? truth : call.reshape(truth, {});
  };
  const ValueId first = holds(c, states);
  auto made = closed(c, [&](Call& inner) -> Item::List {
    xyntra::Graph& graph = inner.scope().builder.graph();
    graph.add_input(inner.scope().builder.fresh_name("iteration"), Type::tensor(DType::I64, Shape{}));
    graph.add_input(inner.scope().builder.fresh_name("condition"), Type::tensor(DType::Bool, Shape{}));
    const Item next = inlined(inner, body, with_additional(own_inputs(inner, states, c, false)));
    if (inner.failed()) return {};
    Item::List outputs = next.list() == nullptr ? Item::List{} : *next.list();
    if (outputs.size() != states.size()) {
      inner.wrong("the body of a loop returns another number of values than it has states");
      return {};
    }
    const ValueId again = holds(inner, outputs);
    Item again_item(again);
    (*again_item.tensor())->scope = &inner.scope();
    outputs.insert(outputs.begin(), again_item);
    return outputs;
  });
  if (!made) return {};
  std::vector<ValueId> inputs{ValueId(), first};
  for (const Item& state : states) inputs.push_back(value_of(c, state));
  for (const Scope::Capture& capture : made->captures) inputs.push_back(capture.outside);
  const auto count = static_cast<std::int64_t>(states.size());
  return results_like(c, states,
                      c.op(states.size(), "Loop", inputs, {{"body", take_graph(*made)}, {"states", count}}));
}

// Scan(states…, scanned…) {body: (states…, slices…, captures…) -> (states…, slices…)}; a map is one without states.
Item scan(Call& c) {
  const GraphRef body = body_of(c, "body");
  const Item::List states = c.has("states") ? list_of(c, "states") : Item::List{},
                   scanned = list_of(c, "scanned");
  const Item::List additional = list_of(c, "additional");
  if (scanned.empty()) return c.unsupported("a scan over nothing");
  std::size_t results = 0;
  auto made = closed(c, [&](Call& inner) -> Item::List {
    Item::List arguments = own_inputs(inner, states, c, false);
    const Item::List slices = own_inputs(inner, scanned, c, true);
    arguments.insert(arguments.end(), slices.begin(), slices.end());
    arguments.insert(arguments.end(), additional.begin(), additional.end());
    const Item next = inlined(inner, body, std::move(arguments));
    results = next.list() == nullptr ? 0 : next.list()->size();
    return next.list() == nullptr ? Item::List{} : *next.list();
  });
  if (!made) return {};
  if (results < states.size()) return c.wrong("the body of a scan returns fewer values than it has states");
  std::vector<ValueId> inputs;
  for (const Item::List* items : {&states, &scanned}) {
    for (const Item& item : *items) inputs.push_back(value_of(c, item));
  }
  for (const Scope::Capture& capture : made->captures) inputs.push_back(capture.outside);
  const Attributes attributes{{"body", take_graph(*made)},
                              {"states", static_cast<std::int64_t>(states.size())},
                              {"num_scan_inputs", static_cast<std::int64_t>(scanned.size())}};
  Item::List list;
  for (const ValueId value : c.op(results, "Scan", inputs, attributes)) list.emplace_back(value);
  return list;
}

// ---- graphs that are called

Item called(Call& c) { return inlined(c, body_of(c, "body"), list_of(c, "rest")); }

Item under_autocast(Call& c) {
  if (c.flag("enabled"))
    return c.unsupported("a region of autocast: run_decompositions makes its casts part of the program");
  return called(c);
}

}  // namespace xyntra::aten
