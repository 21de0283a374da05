// One spelling for what can be said in many, before and after rules are applied: known contents become constants, nodes
// that do nothing vanish, views are Reshape with a constant shape wherever one can say it, axes are counted from the
// front, equal nodes are one node, branches whose condition is known are inlined.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rewrite/draft.h"

namespace xyntra {

class Normalizer {
 public:
  using SubgraphRewrite = std::function<Result<Graph>(const Graph&)>;
  // `subgraphs` is applied to bodies of control flow; both must outlive the normalizer.
  Normalizer(Draft& draft, const SubgraphRewrite& subgraphs) : draft_(&draft), subgraphs_(&subgraphs) {}

  // All nodes of `graph`, its inputs being `arguments`; returns its outputs. Types of values are taken as they
  // are unless `infer` asks for new ones.
  Result<std::vector<DraftValue>> add_graph(const Graph& graph, std::vector<DraftValue> arguments,
                                            bool infer);
  // One node in normal form. Errors are those of inference.
  Result<std::vector<DraftValue>> add(Draft::Addition addition);

 private:
  Result<std::vector<ValueFacts>> inferred(const Draft::Addition& addition) const;
  void refine(Draft::Addition& addition) const;

  Draft* draft_;
  const SubgraphRewrite* subgraphs_;
};

// `shape` as operand of a Reshape from `from`, with 0 for "as it was" and -1 for what is left; nothing when sizes are
// symbolic in a way that this cannot say.
std::optional<std::vector<std::int64_t>> reshape_operand(const Shape& from, const Shape& shape);

}  // namespace xyntra
