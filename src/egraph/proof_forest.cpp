#include "egraph/proof_forest.h"

#include <algorithm>
#include <utility>

#include "support/result.h"

namespace xyntra::egraph {

void ProofForest::link(TermId moved, TermId onto, Justification justification, bool forward) {
  // Make `moved` the root of its tree by reversing the edges above it.
  TermId term = moved;
  Node above = nodes_[term.index];
  nodes_[term.index].parent = TermId();
  while (above.parent.valid()) {
    const TermId parent = above.parent;
    const Node next = nodes_[parent.index];
    nodes_[parent.index] = {term, above.justification, !above.forward};
    term = parent;
    above = next;
  }
  nodes_[moved.index] = {onto, justification, forward};
}

ProofForest::Edge ProofForest::edge_up(TermId term) const {
  const Node& node = nodes_[term.index];
  return {term, node.parent, node.justification, node.forward};
}

std::vector<ProofForest::Edge> ProofForest::path(TermId from, TermId to) const {
  const auto depth_of = [&](TermId term) {
    std::size_t depth = 0;
    for (; nodes_[term.index].parent.valid(); term = nodes_[term.index].parent) ++depth;
    return depth;
  };
  std::vector<Edge> up;
  std::vector<Edge> down;
  const auto climb = [&](TermId& term, std::vector<Edge>& edges) {
    edges.push_back(edge_up(term));
    term = nodes_[term.index].parent;
  };
  std::size_t from_depth = depth_of(from);
  std::size_t to_depth = depth_of(to);
  for (; from_depth > to_depth; --from_depth) climb(from, up);
  for (; to_depth > from_depth; --to_depth) climb(to, down);
  while (from != to) {
    require(nodes_[from.index].parent.valid(), "a proof was asked for terms that are not equal");
    climb(from, up);
    climb(to, down);
  }
  std::reverse(down.begin(), down.end());
  for (Edge edge : down) {
    std::swap(edge.from, edge.to);
    edge.forward = !edge.forward;
    up.push_back(edge);
  }
  return up;
}

}  // namespace xyntra::egraph
