// The choices of an extraction, one node per class, kept free of cycles by a topological order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/extract/extract.h"

namespace xyntra::egraph {

class Choices {
 public:
  Choices(const EGraph& graph, const CostModel& model);

  bool has(ClassId id) const { return rank_[id.index] != kUnranked; }
  std::uint32_t rank(ClassId id) const { return rank_[id.index]; }  // children below their users
  const ENode& node(ClassId id) const { return node(id, chosen_[id.index]); }
  // The nodes that can be chosen, in the canonical order of the terms they were first.
  const ENode& node(ClassId id, std::size_t index) const {
    return graph_.nodes(id)[candidates_[first_[id.index] + index].node];
  }
  std::size_t count(ClassId id) const { return counts_[id.index]; }
  std::size_t chosen(ClassId id) const { return chosen_[id.index]; }
  Cost cost(ClassId id) const { return cost(id, chosen_[id.index]); }
  Cost cost(ClassId id, std::size_t index) const { return candidates_[first_[id.index] + index].cost; }
  std::span<const ClassId> ranked() const { return ranked_; }  // all classes with a choice, as first ranked

  void sort(std::vector<ClassId>& ids) const;  // by rank

  // Whether nothing that the node needs needs `id`.
  bool possible(ClassId id, std::size_t index);
  // Makes the choice, which must be possible, and brings the order up to date.
  void choose(ClassId id, std::size_t index);

  // Below zero when the chosen term of a comes first in the canonical order. Terms of different classes differ.
  int compare(const ENode& a, const ENode& b) const;

 private:
  static constexpr std::uint32_t kUnranked = UINT32_MAX;
  struct Candidate {
    Cost cost;
    std::uint32_t node;  // of the class's nodes
  };
  void choose_first();
  void order_candidates(ClassId id);
  // Classes that the node needs, directly or not, and that stand above `id` in the order; none: `id` is among them.
  std::optional<std::vector<ClassId>> above(ClassId id, const ENode& node);
  std::vector<ClassId> users_below(ClassId id, std::uint32_t limit);
  bool mark(ClassId id);  // false when marked since the last new_marks()
  void new_marks() { ++epoch_; }

  const EGraph& graph_;
  const CostModel& model_;
  std::vector<std::size_t> first_;  // by class: where its candidates begin
  std::vector<std::uint32_t> counts_;  // by class
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> chosen_;  // by class
  std::vector<std::uint32_t> rank_;  // by class
  std::vector<ClassId> ranked_;
  std::vector<std::uint32_t> marks_;  // by class
  std::uint32_t epoch_ = 0;
};

inline Cost add_costs(Cost a, Cost b) { return a > kImpossible - b ? kImpossible : a + b; }

}  // namespace xyntra::egraph
