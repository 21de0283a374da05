// Checks that the groups of a plan are legal: each composes to a formula that a schedule takes, in memory that holds. What a plan says about
// its graph is for plan/check.h, which comes first.
#pragma once

#include "plan/plan.h"
#include "support/limits/limits.h"
#include "target/target.h"

namespace xyntra {

// The graph must have its types inferred. BadModel error that names the group unless
//   - it reads exactly what its formula reads and does not compute
//   - an operation without a formula is a group of its own, and nothing else is
//   - the composed formula is well-formed, and the schedule named takes it, with the hero, the scratch memory and the
//     knobs that it has; knobs may have other values, which are positive
//   - every operand that is read has its edge
//   - memory is as memory/check_memory.h wants it
Status check_groups(const Plan& plan, const Target& target, const Budget* budget = nullptr);

}  // namespace xyntra
