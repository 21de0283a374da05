#include "egraph/egraph.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "support/result.h"

namespace xyntra::egraph {
namespace {

// The canonical children of a node while it is looked up; nodes are small, so the heap is rarely touched.
class ChildBuffer {
 public:
  explicit ChildBuffer(std::size_t count) : count_(count) {
    if (count > fixed_.size()) heap_.resize(count);
  }
  std::span<ClassId> span() {
    return count_ > fixed_.size() ? std::span(heap_) : std::span(fixed_).first(count_);
  }

 private:
  std::size_t count_;
  std::array<ClassId, 8> fixed_;
  std::vector<ClassId> heap_;
};

template <class IdType>
std::uint64_t hash_node(std::uint64_t seed, Head head, Payload payload, std::span<const IdType> children) {
  Hasher hasher(seed);
  hasher.add((std::uint64_t{head} << 32) | payload);
  for (const IdType child : children) hasher.add(child.index);
  return hasher.finish();
}

}  // namespace

EGraph::EGraph(Analysis* analysis, std::uint64_t hash_seed) : analysis_(analysis), seed_(hash_seed) {}

std::uint64_t EGraph::hash_of(Head head, Payload payload, std::span<const TermId> children) const {
  return hash_node(seed_, head, payload, children);
}

std::uint64_t EGraph::hash_of(Head head, Payload payload, std::span<const ClassId> children) const {
  return hash_node(seed_, head, payload, children);
}

ClassId EGraph::find(ClassId id) const {
  while (up_[id.index] != id) {
    up_[id.index] = up_[up_[id.index].index];
    id = up_[id.index];
  }
  return id;
}

std::uint32_t EGraph::find_node(std::uint64_t hash, Head head, Payload payload,
                                std::span<const ClassId> children) const {
  return memo_.find(hash, [&](std::uint32_t index) {
    const Term& term = terms_[index];
    return term.head == head && term.payload == payload &&
           std::equal(children.begin(), children.end(), term.node_children.begin(), term.node_children.end());
  });
}

TermId EGraph::add(Head head, Payload payload, std::span<const TermId> children) {
  const std::uint64_t term_hash = hash_of(head, payload, children);
  const std::uint32_t known = term_index_.find(term_hash, [&](std::uint32_t index) {
    const Term& term = terms_[index];
    return term.head == head && term.payload == payload &&
           std::equal(children.begin(), children.end(), term.children.begin(), term.children.end());
  });
  if (known != HashIndex::kNone) return TermId(known);

  ChildBuffer buffer(children.size());
  const std::span<ClassId> classes = buffer.span();
  for (std::size_t i = 0; i < children.size(); ++i) classes[i] = class_of(children[i]);

  require(terms_.size() < TermId::kNone - 1, "an e-graph holds fewer than 2^32 terms");
  const TermId term(terms_.size());
  terms_.push_back({head, payload, ClassId(), false, false, term_pool_.copy(children), {}});
  term_index_.insert(term_hash, term.index);
  proofs_.add_term();

  const std::uint64_t hash = hash_of(head, payload, std::span<const ClassId>(classes));
  const std::uint32_t same = find_node(hash, head, payload, classes);
  if (same == HashIndex::kNone) {
    make_class(term, hash, classes);
  } else {
    const ClassId id = class_of(TermId(same));
    terms_[term.index].class_id = id;
    ++classes_[id.index].term_count;
    proofs_.link(term, TermId(same), Justification{}, true);
  }
  return term;
}

void EGraph::make_class(TermId term, std::uint64_t hash, std::span<const ClassId> children) {
  const ClassId id(classes_.size());
  up_.push_back(id);
  ++class_count_;
  Term& entry = terms_[term.index];
  entry.class_id = id;
  entry.owns_node = true;
  entry.node_children = class_pool_.copy(children);
  memo_.insert(hash, term.index);
  Class& made = classes_.emplace_back();
  made.nodes.push_back({entry.head, entry.payload, term, entry.node_children});
  made.oldest = term;
  made.term_count = 1;
  made.stamp = ++clock_;
  for (std::size_t i = 0; i < children.size(); ++i) {
    const auto before = children.first(i);
    if (std::find(before.begin(), before.end(), children[i]) != before.end()) continue;
    classes_[children[i].index].parents.push_back(term);
  }
  by_head_[entry.head].push_back(id);
  if (analysis_ == nullptr) return;
  analysis_->made(*this, id, node(term));
  mark_unsettled(id);
}

bool EGraph::unite(TermId a, TermId b, Justification why) {
  const ClassId first = class_of(a);
  const ClassId second = class_of(b);
  if (first == second) return false;
  const Class& one = classes_[first.index];
  const Class& two = classes_[second.index];
  if (one.term_count < two.term_count) {
    proofs_.link(a, b, why, true);
  } else {
    proofs_.link(b, a, why, false);
  }
  const std::size_t first_size = one.nodes.size() + one.parents.size();
  const std::size_t second_size = two.nodes.size() + two.parents.size();
  const bool keep_first = first_size != second_size ? first_size > second_size : first < second;
  if (keep_first) {
    merge(first, second);
  } else {
    merge(second, first);
  }
  return true;
}

void EGraph::merge(ClassId into, ClassId from) {
  up_[from.index] = into;
  --class_count_;
  Class& kept = classes_[into.index];
  Class& gone = classes_[from.index];
  for (const ENode& node : gone.nodes) stale_heads_.push_back(node.head);
  kept.nodes.insert(kept.nodes.end(), gone.nodes.begin(), gone.nodes.end());
  std::vector<ENode>().swap(gone.nodes);
  kept.oldest = std::min(kept.oldest, gone.oldest);
  kept.term_count += gone.term_count;
  kept.stamp = ++clock_;
  std::vector<TermId> moved;
  moved.swap(gone.parents);
  pending_.insert(pending_.end(), moved.begin(), moved.end());
  kept.parents.insert(kept.parents.end(), moved.begin(), moved.end());
  mark_dirty(into);
  if (analysis_ == nullptr) return;
  if (analysis_->merged(*this, into, from)) {
    revisit_parents(into);
  } else {
    for (const TermId parent : moved) {
      if (!std::exchange(terms_[parent.index].revisiting, true)) revisit_.push_back(parent);
    }
  }
  mark_unsettled(find(into));
}

void EGraph::touch(ClassId id) { classes_[find(id).index].stamp = ++clock_; }

Justification EGraph::reason(std::string_view name) {
  const auto [entry, is_new] =
      reason_index_.try_emplace(std::string(name), static_cast<std::uint32_t>(reasons_.size()));
  if (is_new) reasons_.emplace_back(name);
  return {entry->second, Justification::kNoRecord};
}

std::string_view EGraph::reason_name(Justification why) const {
  return why.reason == Justification::kCongruence ? std::string_view("congruence") : reasons_[why.reason];
}

Justification EGraph::applied(Justification reason, const Application& application) {
  reason.record = static_cast<std::uint32_t>(applications_.size());
  applications_.push_back({term_pool_.copy(application.nodes), term_pool_.copy(application.variables),
                           payload_pool_.copy(application.payloads), application.swapped});
  return reason;
}

std::vector<ClassId> EGraph::classes() const {
  std::vector<ClassId> result;
  result.reserve(class_count_);
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (up_[i] == ClassId(i)) result.emplace_back(i);
  }
  return result;
}

std::span<const ENode> EGraph::nodes(ClassId id, Head head) const {
  const std::span<const ENode> all = nodes(id);
  const auto less = [](const ENode& node, Head value) { return node.head < value; };
  const auto begin =
      static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), head, less) - all.begin());
  std::size_t end = begin;
  while (end < all.size() && all[end].head == head) ++end;
  return all.subspan(begin, end - begin);
}

ENode EGraph::node(TermId term) const {
  const Term& entry = terms_[term.index];
  require(entry.owns_node, "a node was asked of a term that another stands for");
  return {entry.head, entry.payload, term, entry.node_children};
}

const std::vector<ClassId>& EGraph::classes_with(Head head) const {
  static const std::vector<ClassId> kNone;
  const auto found = by_head_.find(head);
  return found == by_head_.end() ? kNone : found->second;
}

ClassId EGraph::lookup(Head head, Payload payload, std::span<const ClassId> children) const {
  ChildBuffer buffer(children.size());
  const std::span<ClassId> classes = buffer.span();
  std::transform(children.begin(), children.end(), classes.begin(), [&](ClassId id) { return find(id); });
  const std::uint32_t found =
      find_node(hash_of(head, payload, std::span<const ClassId>(classes)), head, payload, classes);
  return found == HashIndex::kNone ? ClassId() : class_of(TermId(found));
}

}  // namespace xyntra::egraph
