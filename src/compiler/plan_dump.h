// A plan as text, for people who follow it from step to step.
#pragma once

#include "plan/plan.h"

namespace xyntra {

// The graph with long constants left out, the rules behind it, the groups. Names are quoted.
std::string dump_text(const Plan& plan);

}  // namespace xyntra
