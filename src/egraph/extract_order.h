// The choices of an extraction, one node per class, kept free of cycles by a topological order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/extract.h"

namespace xyntra::egraph {

class Choices {
 public:
  Choices(const EGraph& graph, const CostModel& model);

  bool has(ClassId id) const { return rank_[id.index] != kUnranked; }
  std::uint32_t rank(ClassId id) const { return rank_[id.index]; }  // children below their users
  const ENode& node(ClassId id) const { return node(id, chosen_[id.index]); }
  const ENode& node(ClassId id, std::size_t index) const { return graph_.nodes(id)[index]; }
  std::size_t count(ClassId id) const { return graph_.nodes(id).size(); }
  std::size_t chosen(ClassId id) const { return chosen_[id.index]; }
  Cost cost(ClassId id) const { return cost(id, chosen_[id.index]); }
  Cost cost(ClassId id, std::size_t index) const { return costs_[first_cost_[id.index] + index]; }
  std::span<const ClassId> ranked() const { return ranked_; }  // all classes with a choice, as first ranked

  // Whether all children have a choice and none of them needs `id`.
  bool possible(ClassId id, std::size_t index);
  // Makes the choice, which must be possible, and brings the order up to date.
  void choose(ClassId id, std::size_t index);

  // Below zero when the chosen term of a comes first in the canonical order. Terms of different classes differ.
  int compare(const ENode& a, const ENode& b) const;

 private:
  static constexpr std::uint32_t kUnranked = UINT32_MAX;
  void choose_first();
  // Classes that the node needs, directly or not, and that stand above `id` in the order; none: `id` is among them.
  std::optional<std::vector<ClassId>> above(ClassId id, const ENode& node);
  std::vector<ClassId> users_below(ClassId id, std::uint32_t limit);
  bool mark(ClassId id);  // false when marked since the last new_marks()
  void new_marks() { ++epoch_; }

  const EGraph& graph_;
  const CostModel& model_;
  std::vector<std::size_t> first_cost_;  // by class
  std::vector<Cost> costs_;
  std::vector<std::uint32_t> chosen_;  // by class
  std::vector<std::uint32_t> rank_;  // by class
  std::vector<ClassId> ranked_;
  std::vector<std::uint32_t> marks_;  // by class
  std::uint32_t epoch_ = 0;
};

inline Cost add_costs(Cost a, Cost b) { return a > kImpossible - b ? kImpossible : a + b; }

}  // namespace xyntra::egraph
