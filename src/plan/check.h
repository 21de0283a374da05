// Checks what a plan says about its graph. It trusts nothing and shares no code with what makes plans: a lock is
// untrusted input, and passes it in every build. That each group is legal, fusion/check.h tells.
#pragma once

#include "plan/plan.h"

namespace xyntra {

// BadModel error that names the first thing wrong, unless
//   - ids are in range, and names of sizes have one value each
//   - the nodes of a group are different, in topological order, and each leads to an output of the graph
//   - launched in order, a group reads what is an input, a constant or written by an earlier group, and nothing that it
//     computes itself; it writes what it computes, and nobody else writes that
//   - every output of the graph is written
//   - a layout gives every element a place of its own, and only values between groups and constants have one
//   - a choice is between two ways to lay out one thing, is the cheaper by its own numbers, and is what the plan does
//   - an edge goes from the node that computes its value to one that reads it, each once; both ends of a fused edge are
//     in one group, and a value that goes through memory is written
Status check_plan(const Plan& plan);

}  // namespace xyntra
