// What groups take once all of a plan is known: where values lie, and what is no longer in a cache when a group runs.
#pragma once

#include "fusion/groups.h"
#include "plan/plan.h"
#include "schedule/layout/layout_costs.h"
#include "target/target.h"

namespace xyntra {

// Predicts the groups of a grouping again. The plan has the graph, layouts and nominal sizes.
void predict_plan(const Plan& plan, Grouping& grouping, const Target& target, LayoutCosts& costs);

}  // namespace xyntra
