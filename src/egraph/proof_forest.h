// Why terms are equal: a forest over terms whose edges carry a reason, one tree per class.
//
// An edge is laid down when two classes become one, between the two terms that the reason speaks of, so the
// path between two equal terms is the proof that they are. Later edges join trees and never change a path
// that exists; hence what a congruence or a rule needed is always explained by edges older than its own,
// and explanations are well founded. (Nieuwenhuis and Oliveras, "Proof-producing congruence closure".)
#pragma once

#include <cstdint>
#include <vector>

#include "support/ids.h"

namespace xyntra::egraph {

using TermId = Id<struct TermTag>;  // a node as it was added, its children as TermIds

// Why two terms are equal. `reason` is kCongruence or a number of EGraph::reason(); `record` is the
// application of a rule (see EGraph::applications()) or kNoRecord.
struct Justification {
  static constexpr std::uint32_t kCongruence = UINT32_MAX;
  static constexpr std::uint32_t kNoRecord = UINT32_MAX;
  std::uint32_t reason = kCongruence;
  std::uint32_t record = kNoRecord;
  bool operator==(const Justification&) const = default;
};

class ProofForest {
 public:
  // One step of a path. The reason was given for `stated_from` = `from` when forward, else for the reverse.
  struct Edge {
    TermId from;
    TermId to;
    Justification justification;
    bool forward = true;
  };

  void add_term() { nodes_.emplace_back(); }
  // `moved` is a term of the smaller tree, `onto` of the other; `forward` when the reason leads moved -> onto.
  void link(TermId moved, TermId onto, Justification justification, bool forward);
  // The edges from one term to another of the same tree, in order. Empty when they are the same term.
  std::vector<Edge> path(TermId from, TermId to) const;

 private:
  struct Node {
    TermId parent;
    Justification justification;
    bool forward = true;  // the reason leads from this node to its parent
  };
  Edge edge_up(TermId term) const;
  std::vector<Node> nodes_;
};

}  // namespace xyntra::egraph
