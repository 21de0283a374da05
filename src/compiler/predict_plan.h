// What groups take once all of a plan is known: where values lie, and what is no longer in a cache when a group runs.
#pragma once

#include "fusion/groups.h"
#include "plan/plan.h"
#include "schedule/layout/layout_costs.h"
#include "target/target.h"

namespace xyntra {

// Predicts the groups of a grouping again.
void predict_groups(const Graph& graph, LayoutsByValue layouts, const SymbolBindings& nominal,
                    Grouping& grouping, const Target& target, LayoutCosts& costs);

}  // namespace xyntra
