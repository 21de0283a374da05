// Whether a rule, read as text, leads from one term to another: what all checkers of explanations rest on.
#pragma once

#include <span>
#include <unordered_map>

#include "egraph/egraph.h"
#include "egraph/match/rule.h"

namespace xyntra::egraph {

class RuleChecker {
 public:
  RuleChecker(EGraph& graph, std::span<const Rule> rules);

  // Matches the rule's left side on the term `left` itself (not on its class) and compares the right side with
  // `right`. Reasons that name no rule hold.
  bool holds(Justification why, TermId left, TermId right);

 private:
  struct Bindings;
  bool match(const Rule& rule, Bindings& bindings, std::size_t todo_at, TermId right);
  bool finished(const Rule& rule, const Bindings& bindings, TermId right);

  EGraph& graph_;
  std::unordered_map<std::uint32_t, const Rule*> rules_;  // by reason
};

}  // namespace xyntra::egraph
