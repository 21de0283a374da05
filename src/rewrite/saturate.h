// From a draft to a cheaper draft: into an e-graph, rules until nothing is new or a limit is met, out of it again.
#pragma once

#include <span>
#include <vector>

#include "rewrite/normalize/normalize.h"
#include "rewrite/rewrite.h"
#include "rewrite/rules/rule_set.h"

namespace xyntra {

struct Saturation {
  std::vector<DraftValue> outputs;  // in the draft of the normalizer
  std::vector<RuleUse> uses;
};

// What computes `outputs` of `from`, rewritten and added by `to`, whose draft has the same inputs.
Result<Saturation> saturate(const Draft& from, std::span<const DraftValue> outputs,
                            std::span<const egraph::Rule> rules, const RewriteOptions& options,
                            Normalizer& to, Draft& into, RewriteReport& report);

}  // namespace xyntra
