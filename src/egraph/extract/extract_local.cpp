#include "egraph/extract/extract_local.h"

#include <algorithm>

namespace xyntra::egraph {

void LocalComparison::need(ClassId id, std::uint8_t who) {
  if (choices_.cost(id) == 0 && choices_.node(id).children.empty()) return;
  if (epochs_[id.index] != epoch_) {
    epochs_[id.index] = epoch_;
    needs_[id.index] = who;
    heap_.emplace_back(choices_.rank(id), id);
    std::push_heap(heap_.begin(), heap_.end());
    if (who != kBoth) ++open_;
    return;
  }
  // Users stand higher in the order, so this class still waits in the heap.
  if (needs_[id.index] != kBoth && (needs_[id.index] | who) == kBoth) --open_;
  needs_[id.index] |= who;
}

std::pair<Cost, Cost> LocalComparison::differences(ClassId id, std::size_t first, std::size_t second) {
  ++epoch_;
  heap_.clear();
  open_ = 0;
  Cost only_first = choices_.cost(id, first);
  Cost only_second = choices_.cost(id, second);
  const auto charge = [&](ClassId needed) {
    const std::uint8_t who = needs_[needed.index];
    if (who == kFirst) only_first = add_costs(only_first, choices_.cost(needed));
    if (who == kSecond) only_second = add_costs(only_second, choices_.cost(needed));
  };
  for (const ClassId child : choices_.node(id, first).children) need(child, kFirst);
  for (const ClassId child : choices_.node(id, second).children) need(child, kSecond);
  for (int seen = 0; open_ > 0 && seen < kLookahead; ++seen) {
    std::pop_heap(heap_.begin(), heap_.end());
    const ClassId next = heap_.back().second;
    heap_.pop_back();
    const std::uint8_t who = needs_[next.index];
    if (who != kBoth) --open_;
    charge(next);
    for (const ClassId child : choices_.node(next).children) need(child, who);
  }
  for (const auto& [rank, left] : heap_) charge(left);
  return {only_first, only_second};
}

}  // namespace xyntra::egraph
