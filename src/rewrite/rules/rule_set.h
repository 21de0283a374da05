// Rules made ready to run: parsed, checked, and compiled for the e-graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "egraph/match/rule.h"
#include "rewrite/rules/rule.h"

namespace xyntra {

// Which classes of rules may be applied.
struct RuleClasses {
  bool reassociating = true;
  bool precision_changing = false;
  bool allow(RuleClass rule_class) const;
};

// The class of a rule where its result has this dtype: see RuleClass.
RuleClass class_on(const RuleText& rule, DType dtype);

class RuleSet {
 public:
  // The tables of this folder, parsed once. A bad rule is an internal error that gives its place.
  static const RuleSet& built_in();
  // Usage error for a rule that is malformed or whose name is taken.
  static Result<RuleSet> parse(std::span<const RuleText> texts);

  std::span<const ParsedRule> rules() const { return *rules_; }
  const ParsedRule* find(std::string_view name) const;
  // Rules of the classes allowed, for a graph whose analysis is a Program. They refer to this set.
  std::vector<egraph::Rule> compile(RuleClasses classes) const;

 private:
  std::shared_ptr<const std::vector<ParsedRule>> rules_;
};

egraph::Rule compile_rule(const ParsedRule& rule, RuleClasses classes);

// The rows of all *.def tables.
std::span<const RuleText> built_in_rules();

}  // namespace xyntra
