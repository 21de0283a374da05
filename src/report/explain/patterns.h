// Fusion patterns of a user: chains of operations that must be one kernel wherever they occur.
#pragma once

#include "plan/plan.h"
#include "rewrite/rules/user_rules.h"

namespace xyntra {

// One sentence for each chain of the plan's graph that matches a pattern and is not in one group, with the reason of
// the edge that cuts it. `bias` is the addition of a constant, `matmul` also stands for Gemm; dropout, which does nothing
// when a model runs, may be missing.
std::vector<std::string> broken_patterns(const std::vector<UserPattern>& patterns, const Plan& plan);

}  // namespace xyntra
