#include "egraph/extract/extract_program.h"

#include <algorithm>

namespace xyntra::egraph {

UsedProgram::UsedProgram(const EGraph& graph, Choices& choices, std::span<const ClassId> roots)
    : graph_(graph), choices_(choices), references_(graph.class_limit(), 0) {
  for (const ClassId root : roots) reference(root);
}

void UsedProgram::Price::operator+=(const Price& other) {
  added = add_costs(added, other.added);
  freed = add_costs(freed, other.freed);
}

// Counts a use of a class, and of what it needs when that is the first. Returns the cost this adds.
Cost UsedProgram::reference(ClassId id) {
  Cost added = 0;
  stack_.assign(1, id);
  while (!stack_.empty()) {
    const ClassId next = stack_.back();
    stack_.pop_back();
    if (references_[next.index]++ > 0) continue;
    if (choices_.count(next) > 1) taken_.push_back(next);
    added = add_costs(added, choices_.cost(next));
    const auto children = choices_.node(next).children;
    stack_.insert(stack_.end(), children.begin(), children.end());
  }
  return added;
}

Cost UsedProgram::release(ClassId id) {
  Cost freed = 0;
  stack_.assign(1, id);
  while (!stack_.empty()) {
    const ClassId next = stack_.back();
    stack_.pop_back();
    if (--references_[next.index] > 0) continue;
    freed = add_costs(freed, choices_.cost(next));
    const auto children = choices_.node(next).children;
    stack_.insert(stack_.end(), children.begin(), children.end());
  }
  return freed;
}

UsedProgram::Price UsedProgram::exchange(ClassId id, std::size_t index) {
  Price price{choices_.cost(id, index), choices_.cost(id)};
  for (const ClassId child : choices_.node(id, index).children)
    price.added = add_costs(price.added, reference(child));
  for (const ClassId child : choices_.node(id).children) price.freed = add_costs(price.freed, release(child));
  return price;
}

void UsedProgram::switch_to(ClassId id, std::size_t index, Price& total) {
  total += exchange(id, index);
  journal_.push_back({id, choices_.chosen(id)});
  choices_.choose(id, index);
}

void UsedProgram::undo(std::size_t mark) {
  while (journal_.size() > mark) {
    const Change change = journal_.back();
    journal_.pop_back();
    exchange(change.id, change.index);
    choices_.choose(change.id, change.index);
  }
}

// Switches a class to another node when that makes the program cheaper, or as cheap and earlier in the canonical
// order of terms.
bool UsedProgram::try_choice(ClassId id, std::size_t index) {
  taken_.clear();
  const Price price = exchange(id, index);
  if (price.pays() ||
      (price.added == price.freed && choices_.compare(choices_.node(id, index), choices_.node(id)) < 0)) {
    choices_.choose(id, index);
    return true;
  }
  if (!taken_.empty() && taken_.size() <= kFollowers) return try_with_followers(id, index, price);
  for (const ClassId child : choices_.node(id).children) reference(child);
  for (const ClassId child : choices_.node(id, index).children) release(child);
  return false;
}

// The classes that a switch brought into use chose their nodes for themselves; beside what is in use anyway another
// may be better.
bool UsedProgram::try_with_followers(ClassId id, std::size_t index, Price price) {
  const std::size_t mark = journal_.size();
  journal_.push_back({id, choices_.chosen(id)});
  choices_.choose(id, index);
  const std::vector<ClassId> taken = taken_;
  for (const ClassId follower : taken) {
    for (std::size_t i = 0; i < choices_.count(follower); ++i) {
      if (!uses(follower)) break;
      if (i == choices_.chosen(follower) || !choices_.possible(follower, i)) continue;
      Price step;
      switch_to(follower, i, step);
      if (step.pays()) {
        price += step;
      } else {
        undo(journal_.size() - 1);
      }
    }
  }
  if (!price.pays()) {
    undo(mark);
    return false;
  }
  journal_.resize(mark);
  return true;
}

bool UsedProgram::improve_each(bool from_top) {
  std::vector<ClassId> used = classes();
  if (from_top) std::reverse(used.begin(), used.end());
  bool improved = false;
  for (const ClassId id : used) {
    for (std::size_t i = 0; i < choices_.count(id) && uses(id); ++i) {
      if (i != choices_.chosen(id) && choices_.possible(id, i) && try_choice(id, i)) improved = true;
    }
  }
  return improved;
}

// The nodes of classes in use that refer to a class and are not chosen, in an order that does not depend on when they
// were added.
std::vector<UsedProgram::Change> UsedProgram::possible_users(ClassId id) const {
  std::vector<Change> users;
  for (const TermId parent : graph_.parents(id)) {
    const ClassId user = graph_.class_of(parent);
    if (!uses(user)) continue;
    for (std::size_t i = 0; i < choices_.count(user); ++i) {
      if (choices_.node(user, i).term == parent) users.push_back({user, i});
    }
  }
  std::sort(users.begin(), users.end(), [&](const Change& a, const Change& b) {
    return a.id != b.id ? choices_.rank(a.id) < choices_.rank(b.id) : a.index < b.index;
  });
  return users;
}

bool UsedProgram::try_sharing(ClassId id) {
  const std::vector<Change> users = possible_users(id);
  if (users.size() < 2) return false;
  const std::size_t mark = journal_.size();
  Price price{reference(id), 0};
  for (const auto& [user, index] : users) {
    if (!uses(user) || index == choices_.chosen(user) || !choices_.possible(user, index)) continue;
    Price step;
    switch_to(user, index, step);
    if (step.pays()) {
      price += step;
    } else {
      undo(journal_.size() - 1);
    }
  }
  price.freed = add_costs(price.freed, release(id));
  const bool keep = journal_.size() > mark && price.pays();
  if (!keep) undo(mark);
  journal_.resize(mark);
  return keep;
}

bool UsedProgram::improve_shared() {
  bool improved = false;
  const std::vector<ClassId> all(choices_.ranked().begin(), choices_.ranked().end());
  for (const ClassId id : all) {
    if (!uses(id) && graph_.parents(id).size() > 1 && try_sharing(id)) improved = true;
  }
  return improved;
}

std::vector<ClassId> UsedProgram::classes() const {
  std::vector<ClassId> used;
  for (const ClassId id : choices_.ranked()) {
    if (uses(id)) used.push_back(id);
  }
  choices_.sort(used);
  return used;
}

}  // namespace xyntra::egraph
