// Checks a plan's groups against its graph, by code that shares nothing with the code that makes them.
#pragma once

#include "plan/plan.h"

namespace xyntra {

// Launched in order, each group must find all it reads in memory or compute it itself, and every output of the graph
// must have been written.
Status verify_groups(const Plan& plan);

}  // namespace xyntra
