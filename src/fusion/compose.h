// The formula of a group: its nodes' formulas as one.
#pragma once

#include "fusion/pieces.h"
#include "schedule/layouts.h"

namespace xyntra {

// Nodes in topological order; what they read from outside is `inputs`, what is kept of their results `outputs`.
// Constants of one element become numbers in the formula and are no inputs.
te::Formula compose(const Pieces& pieces, const std::vector<NodeId>& nodes,
                    const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs);

// What a formula says once its symbolic sizes are bound.
Result<te::Formula> bound(te::Formula formula, const SymbolBindings& bindings);

// Whether a value is written into formulas as a number.
bool is_number(const Graph& graph, ValueId value);

}  // namespace xyntra
