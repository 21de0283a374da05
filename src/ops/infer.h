// Types, shapes and symbolic contents of every value, from the ops' rules.
#pragma once

#include "ops/op.h"

namespace xyntra {

// How many values of subgraphs may still be looked at. A loop infers its body several times until its states
// settle, so loops within loops would take exponential time without a cap.
struct InferenceWork {
  std::int64_t values_left = 500'000;
  const Budget* budget = nullptr;  // its time is looked at from node to node; may be null
  std::map<const Graph*, std::vector<ValueFacts>>* given =
      nullptr;  // to a node's subgraphs, at last; may be null
};

// Results of one node, given its operands: checks arity, attributes and dtypes against the definition, then
// applies the shape rule. `fresh_prefix` names sizes that only running tells.
// `work` is shared by the nodes of one model where given.
Result<std::vector<ValueFacts>> infer_node(const OpDef& def, const Node& node,
                                           std::span<const ValueFacts> inputs,
                                           const std::string& fresh_prefix = "u",
                                           InferenceWork* work = nullptr);

// All values of a graph in topological order; declared types of values are checked against inferred ones, the
// more precise one is kept. An op without definition is an Unsupported error.
Status infer_types(Graph& graph, const Budget* budget = nullptr);
inline Status infer_types(Module& module, const Budget* budget = nullptr) {
  return infer_types(module.graph, budget);
}

// Every op of the graph (and subgraphs) that has no definition: op name, then the origins of its nodes.
std::map<std::string, std::vector<std::string>> undefined_ops(const Graph& graph);

ValueFacts facts_of(const Graph& graph, ValueId id);
ValueFacts facts_of(const Datum& datum);  // at run time: everything is known

}  // namespace xyntra
