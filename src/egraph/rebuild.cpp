// Congruence closure and the analysis, deferred: unite() leaves work in queues, rebuild() does it all.
// Doing it once per round of rewriting instead of once per union is what makes saturation fast
// (Willsey and others, "egg: fast and extensible equality saturation").
#include <algorithm>
#include <utility>

#include "egraph/egraph.h"
#include "support/limits/current_budget.h"

namespace xyntra::egraph {

void EGraph::rebuild() {
  while (true) {
    poll_limits();
    if (!pending_.empty()) {
      const TermId term = pending_.front();
      pending_.pop_front();
      repair(term);
    } else if (!revisit_.empty()) {
      const TermId term = revisit_.front();
      revisit_.pop_front();
      terms_[term.index].revisiting = false;
      if (!terms_[term.index].owns_node) continue;
      const ClassId id = class_of(term);
      if (!analysis_->remade(*this, id, node(term))) continue;
      touch(id);
      revisit_parents(id);
      mark_unsettled(id);
    } else if (!unsettled_.empty()) {
      const ClassId id = unsettled_.front();
      unsettled_.pop_front();
      classes_[id.index].unsettled = false;
      if (find(id) != id) continue;
      if (classes_[id.index].dirty)
        tidy_class(classes_[id.index]);  // the others wait: there may be many rounds
      analysis_->settled(*this, id);
    } else {
      break;
    }
  }
  tidy();
}

// Brings a node whose children were merged back into the memo under its new name. When another node has that
// name the two are congruent, and one of them stands for both from now on.
void EGraph::repair(TermId id) {
  Term& term = terms_[id.index];
  if (!term.owns_node) return;
  bool changed = false;
  for (const ClassId child : term.node_children) changed = changed || find(child) != child;
  if (!changed) return;
  memo_.erase(hash_of(term.head, term.payload, std::span<const ClassId>(term.node_children)), id.index);
  for (ClassId& child : term.node_children) child = find(child);
  const std::uint64_t hash = hash_of(term.head, term.payload, std::span<const ClassId>(term.node_children));
  const std::uint32_t same = find_node(hash, term.head, term.payload, term.node_children);
  if (same == HashIndex::kNone) {
    memo_.insert(hash, id.index);
    return;
  }
  term.owns_node = false;
  mark_dirty(class_of(id));
  for (const ClassId child : term.node_children) mark_dirty(child);
  unite(id, TermId(same), Justification{});
}

void EGraph::revisit_parents(ClassId id) {
  for (const TermId parent : classes_[id.index].parents) {
    if (!std::exchange(terms_[parent.index].revisiting, true)) revisit_.push_back(parent);
  }
}

void EGraph::mark_dirty(ClassId id) {
  if (!std::exchange(classes_[id.index].dirty, true)) dirty_.push_back(id);
}

void EGraph::mark_unsettled(ClassId id) {
  if (!std::exchange(classes_[id.index].unsettled, true)) unsettled_.push_back(id);
}

// Drops nodes and parents that another stands for, and puts nodes in the order that nodes(id, head) needs.
void EGraph::tidy_class(Class& entry) {
  const auto gone = [&](TermId term) { return !terms_[term.index].owns_node; };
  std::erase_if(entry.nodes, [&](const ENode& node) { return gone(node.term); });
  std::sort(entry.nodes.begin(), entry.nodes.end(), [](const ENode& a, const ENode& b) {
    return a.head != b.head ? a.head < b.head : a.term < b.term;
  });
  std::erase_if(entry.parents, gone);
  std::sort(entry.parents.begin(), entry.parents.end());
  entry.parents.erase(std::unique(entry.parents.begin(), entry.parents.end()), entry.parents.end());
}

void EGraph::tidy() {
  for (const ClassId id : dirty_) {
    classes_[id.index].dirty = false;
    if (find(id) == id) tidy_class(classes_[id.index]);
  }
  dirty_.clear();
  std::sort(stale_heads_.begin(), stale_heads_.end());
  stale_heads_.erase(std::unique(stale_heads_.begin(), stale_heads_.end()), stale_heads_.end());
  for (const Head head : stale_heads_) {
    std::vector<ClassId>& list = by_head_[head];
    for (ClassId& id : list) id = find(id);
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  stale_heads_.clear();
}

}  // namespace xyntra::egraph
