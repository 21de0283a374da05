// The formula of a group: its nodes' formulas as one.
#pragma once

#include "fusion/fusion_nodes.h"
#include "schedule/layout/layouts.h"

namespace xyntra {

// Nodes in topological order; what they read from outside is `inputs`, what is kept of their results `outputs`.
// Numbers (FusionNodes::is_number) are written into the formula and are no inputs.
te::Formula compose(const FusionNodes& fusion_nodes, const std::vector<NodeId>& nodes,
                    const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs);

// Nodes of the same kinds, wired alike: groups with equal structures compose to the same formula.
using GroupStructure = std::vector<std::uint64_t>;
GroupStructure structure_of(const FusionNodes& fusion_nodes, const std::vector<NodeId>& nodes,
                            const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs);

// What a formula says once its symbolic sizes are bound.
Result<te::Formula> bound(te::Formula formula, const SymbolBindings& bindings);

}  // namespace xyntra
