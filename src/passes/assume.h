// Sizes that a model leaves apart but that must be equal for it to make sense.
//
// Exporters name sizes one by one: a mask [seq, total] is added to scores [seq, past + seq]. Both are equal in every run
// that does not broadcast, yet nothing in the file says so, and a plan that kept both open would pay for it in
// every index. So a plan assumes it, writes the assumption down, and whoever runs it checks it first.
#pragma once

#include "plan/plan.h"

namespace xyntra {

// The graph with symbols of inputs replaced by what they are added to, types inferred anew; what was assumed is added
// to `assumptions`.
Result<Graph> with_equal_sizes(const Graph& graph, std::vector<Assumption>& assumptions,
                               const Budget* budget);

// The graph with symbols of inputs replaced by numbers, types inferred anew.
Result<Graph> with_sizes(const Graph& graph, const SymbolBindings& sizes, const Budget* budget);

// Takes out of the ranges what has one value only. Such a size is not kept open: branches that it decides, and loops,
// become fixed.
SymbolBindings take_fixed(SymbolRanges& ranges);

}  // namespace xyntra
