// Extraction: the cheapest program in an e-graph, one node per class, every class paid for once.
//
// Costs are integers that the client gives each node; the cost of a program is the sum over the classes it
// uses, shared ones counted once, which is what a graph of tensors costs. Finding the least is NP-hard; this
// finds a good one in time nearly linear in the e-graph:
//   1. a first choice for every class by Knuth's generalisation of Dijkstra's algorithm, pricing a node at its own
//      cost plus that of its dearest child (the sum over children would count shared parts once per path, which
//      in a chain of residual blocks doubles with each of them);
//   2. a better choice for every class on its own: alternatives are compared by the classes that only one of
//      them needs, looking no further than a few dozen classes (extract_local.h);
//   3. for the program of the roots, moves that free more than they add, counting references exactly: one class
//      switches to another node, with the classes that this brings into use; or several switch together to a class
//      that they can share (extract_program.h). It ends when no move pays, or after a few sweeps.
// Choices never close a cycle: a topological order of all of them is kept (Pearce and Kelly).
//
// Equal costs are settled by the canonical order of terms: the client's key of head and payload, then the
// children in turn. It does not depend on numbers of classes or terms, so neither does the program chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "egraph/egraph.h"
#include "support/result.h"

namespace xyntra::egraph {

using Cost = std::uint64_t;
inline constexpr Cost kImpossible = UINT64_MAX;  // a node that is never chosen

struct CostModel {
  std::function<Cost(ClassId, const ENode&)> cost;
  // A number for (head, payload) that depends on what they mean, not on when they were interned.
  std::function<std::uint64_t(Head, Payload)> key;
};

class Extraction {
 public:
  Cost cost() const { return cost_; }
  const std::vector<ClassId>& order() const { return order_; }  // the classes used, children first
  const ENode& choice(ClassId canonical) const { return choices_[canonical.index]; }  // of a class used
  // The chosen program of a class used, as a term: added to the graph, where it is equal to what it was chosen for.
  TermId term(EGraph& graph, ClassId root) const;

 private:
  friend class Extractor;
  Cost cost_ = 0;
  std::vector<ClassId> order_;
  std::vector<ENode> choices_;  // by class; valid until the graph changes classes or nodes
};

// The graph must be rebuilt. A Usage error when a root has no program of finite cost.
Result<Extraction> extract(const EGraph& graph, const CostModel& model, std::span<const ClassId> roots);

}  // namespace xyntra::egraph
