// Rewriting: the cheapest graph found that computes the same, and the certificate of how it was reached.
//
//   normalise          one spelling for what can be said in many; constants folded, equal nodes one node
//   saturate           rule tables over an e-graph, within limits that count
//   extract            the cheapest program, in integer costs
//   merge              parallel matmuls over one operand become one matmul (named passes, in this order)
//   normalise again    constants that rules made are folded
//
// Inputs and outputs keep their names, types and order. Subgraphs of control flow are rewritten on their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "rewrite/normalize/fold.h"
#include "rewrite/rules/rule.h"
#include "support/limits/limits.h"

namespace xyntra {

using UserRule = RuleText;  // left and right as in the tables

struct RewriteLimits {
  std::int64_t iterations = 16;
  std::int64_t nodes = 500'000;  // of the e-graph
  std::int64_t nodes_per_node = 16;  // of the e-graph, per node of the model (and some for small ones)
  std::int64_t matches_per_rule = 50'000;  // in one iteration, before the rule pauses
};

struct RewriteOptions {
  bool enabled = true;  // off: only what the evaluator would do anyway, constants and dead code
  bool allow_reassociating = true;
  bool allow_precision_changing = false;
  bool integer_units = false;  // int8 GEMMs cost less than those of floats, else more
  RewriteLimits limits;
  std::vector<UserRule> user_rules;
  const Budget* budget = nullptr;  // its time is looked at; may be null
  std::int64_t fold_limit = 64 << 20;  // bytes of one constant that folding makes
};

// One use of a rule on the way from the model's graph to the result.
struct RuleUse {
  std::string rule;
  RuleClass rule_class = RuleClass::Exact;
  std::vector<std::string> origins;  // the model's own names of the nodes it touched
  std::string result;  // the value it ended in
};

struct RewriteReport {
  std::size_t nodes_before = 0;
  std::size_t nodes_normalized = 0;
  std::size_t nodes_after = 0;
  std::size_t egraph_nodes = 0;
  std::size_t egraph_classes = 0;
  std::size_t iterations = 0;
  std::string stop;  // why saturation ended: "saturated", "node limit", …
};

struct RewriteResult {
  Graph graph;
  std::vector<RuleUse> certificate;
  FoldLog folded;  // in `graph` itself, not in its subgraphs
  RewriteReport report;
};

// `graph` has types inferred. Errors: a user's rule that is wrong, or the budget's time.
Result<RewriteResult> rewrite(const Graph& graph, const RewriteOptions& options = {});

}  // namespace xyntra
