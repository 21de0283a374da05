// Every rule by machine: both sides evaluated on random instances and hard values, and held to the class it claims.
//
// Exact: the same bits, any NaN being as good as another. Reassociating: against the float64 oracle of the left side, an error
// at most twice the left side's plus 4 units in the last place of the largest number involved; NaN where the left
// side has NaN and nowhere else; element-wise, the same infinities and signs of zeros. Precision-changing: the sides
// agree to a few decimal digits on ordinary values.
#pragma once

#include <cstdint>
#include <string>

#include "rewrite/rules/rule.h"

namespace xyntra {

struct CheckOptions {
  int instances = 24;  // on which the rule must fire
  int attempts = 20'000;  // at most, to find them
  std::uint64_t seed = 1;
};

struct RuleCheck {
  int instances = 0;
  std::int64_t comparisons = 0;  // of elements
  std::string failure;  // empty: the rule holds
};

RuleCheck check_rule(const ParsedRule& rule, const CheckOptions& options = {});

}  // namespace xyntra
