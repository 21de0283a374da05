#include "egraph/extract/extract_order.h"

#include <algorithm>
#include <iterator>
#include <queue>
#include <span>

namespace xyntra::egraph {

Choices::Choices(const EGraph& graph, const CostModel& model) : graph_(graph), model_(model) {
  const std::size_t limit = graph.class_limit();
  first_.assign(limit, 0);
  counts_.assign(limit, 0);
  chosen_.assign(limit, 0);
  rank_.assign(limit, kUnranked);
  marks_.assign(limit, 0);
  for (const ClassId id : graph.classes()) {
    first_[id.index] = candidates_.size();
    for (const ENode& node : graph.nodes(id))
      candidates_.push_back({model.cost(id, node), counts_[id.index]++});
  }
  choose_first();
  for (const ClassId id : ranked_) order_candidates(id);
}

// Keeps what can be chosen at all, in an order that does not depend on when it was added. Aside, since what is compared may come back
// to this class, whose choice has to stay where it is meanwhile.
void Choices::order_candidates(ClassId id) {
  const std::span<const ENode> nodes = graph_.nodes(id);
  const std::span<Candidate> all = std::span(candidates_).subspan(first_[id.index], counts_[id.index]);
  const std::uint32_t chosen = all[chosen_[id.index]].node;
  std::vector<Candidate> kept;
  std::ranges::copy_if(all, std::back_inserter(kept), [&](const Candidate& candidate) {
    const auto children = nodes[candidate.node].children;
    return candidate.cost != kImpossible &&
           std::all_of(children.begin(), children.end(), [&](ClassId child) { return has(child); });
  });
  std::sort(kept.begin(), kept.end(), [&](const Candidate& a, const Candidate& b) {
    const int order = a.node == b.node ? 0 : compare(nodes[a.node], nodes[b.node]);
    return order != 0 ? order < 0 : a.node < b.node;
  });
  std::ranges::copy(kept, all.begin());
  counts_[id.index] = static_cast<std::uint32_t>(kept.size());
  const auto again = std::ranges::find(kept, chosen, &Candidate::node);
  chosen_[id.index] = static_cast<std::uint32_t>(again - kept.begin());
}

void Choices::choose_first() {
  struct Offer {
    Cost price;
    ClassId id;
    std::uint32_t index;
  };
  std::vector<std::uint32_t> missing(graph_.term_count(), 0);  // by term: children without a choice
  std::vector<std::uint32_t> position(graph_.term_count(), 0);  // by term: which node of its class
  std::vector<Cost> price(graph_.class_limit(), 0);
  const auto dearer = [&](const Offer& a, const Offer& b) {
    if (a.price != b.price) return a.price > b.price;
    if (a.id == b.id && a.index == b.index) return false;
    const int order = compare(node(a.id, a.index), node(b.id, b.index));
    return order != 0 ? order > 0 : a.id > b.id;
  };
  std::priority_queue<Offer, std::vector<Offer>, decltype(dearer)> offers(dearer);
  const auto offer = [&](ClassId id, std::uint32_t index) {
    if (cost(id, index) == kImpossible) return;
    Cost dearest = 0;
    for (const ClassId child : node(id, index).children) dearest = std::max(dearest, price[child.index]);
    offers.push({std::min(add_costs(dearest, cost(id, index)), kImpossible - 1), id, index});
  };
  for (const ClassId id : graph_.classes()) {
    for (const TermId parent : graph_.parents(id)) ++missing[parent.index];
  }
  for (const ClassId id : graph_.classes()) {
    for (std::uint32_t i = 0; i < count(id); ++i) {
      position[node(id, i).term.index] = i;
      if (node(id, i).children.empty()) offer(id, i);
    }
  }
  while (!offers.empty()) {
    const Offer best = offers.top();
    offers.pop();
    if (has(best.id)) continue;
    chosen_[best.id.index] = best.index;
    price[best.id.index] = best.price;
    rank_[best.id.index] = static_cast<std::uint32_t>(ranked_.size());
    ranked_.push_back(best.id);
    for (const TermId parent : graph_.parents(best.id)) {
      if (--missing[parent.index] == 0) offer(graph_.class_of(parent), position[parent.index]);
    }
  }
}

int Choices::compare(const ENode& a, const ENode& b) const {
  const ENode* left = &a;
  const ENode* right = &b;
  // Two classes never hold the same term, so the first children that differ decide.
  while (true) {
    const std::uint64_t left_key = model_.key(left->head, left->payload);
    const std::uint64_t right_key = model_.key(right->head, right->payload);
    if (left_key != right_key) return left_key < right_key ? -1 : 1;
    if (left->children.size() != right->children.size()) {
      return left->children.size() < right->children.size() ? -1 : 1;
    }
    std::size_t i = 0;
    while (i < left->children.size() && left->children[i] == right->children[i]) ++i;
    if (i == left->children.size()) return 0;  // only when the keys are not unique
    const ClassId first = left->children[i];
    const ClassId second = right->children[i];
    left = &node(first);
    right = &node(second);
  }
}

void Choices::sort(std::vector<ClassId>& ids) const {
  std::sort(ids.begin(), ids.end(), [&](ClassId a, ClassId b) { return rank(a) < rank(b); });
}

bool Choices::mark(ClassId id) {
  if (marks_[id.index] == epoch_) return false;
  marks_[id.index] = epoch_;
  return true;
}

std::optional<std::vector<ClassId>> Choices::above(ClassId id, const ENode& start) {
  new_marks();
  std::vector<ClassId> found;
  const auto visit = [&](ClassId child) {
    if (rank(child) > rank(id) && mark(child)) found.push_back(child);
    return child != id;
  };
  for (const ClassId child : start.children) {
    if (!visit(child)) return std::nullopt;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const ClassId child : node(found[i]).children) {
      if (!visit(child)) return std::nullopt;
    }
  }
  return found;
}

bool Choices::possible(ClassId id, std::size_t index) { return above(id, node(id, index)).has_value(); }

std::vector<ClassId> Choices::users_below(ClassId id, std::uint32_t limit) {
  new_marks();
  mark(id);
  std::vector<ClassId> found{id};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const TermId parent : graph_.parents(found[i])) {
      const ClassId user = graph_.class_of(parent);
      if (!has(user) || rank(user) >= limit || node(user).term != parent) continue;
      if (mark(user)) found.push_back(user);
    }
  }
  return found;
}

void Choices::choose(ClassId id, std::size_t index) {
  std::vector<ClassId> needed = above(id, node(id, index)).value();
  chosen_[id.index] = static_cast<std::uint32_t>(index);
  if (needed.empty()) return;
  // What the new node needs goes below `id` and its users; together they keep the places they had.
  sort(needed);
  std::vector<ClassId> users = users_below(id, rank(needed.back()));
  sort(users);
  needed.insert(needed.end(), users.begin(), users.end());
  std::vector<std::uint32_t> places;
  places.reserve(needed.size());
  for (const ClassId moved : needed) places.push_back(rank(moved));
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < needed.size(); ++i) rank_[needed[i].index] = places[i];
}

}  // namespace xyntra::egraph
