// How the buffers between groups are laid out. Constants are packed the way the main loop reads them; values between
// convolutions have their channels in blocks. Graph inputs and outputs stay as the caller has them: a group that reads
// or writes one of those beside a blocked value changes the layout on the way, inside its own loops.
#pragma once

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// formulas[g] is that of groups[g]; empty for a host group.
std::vector<ValueLayout> choose_layouts(const Graph& graph, const std::vector<Group>& groups,
                                        const std::vector<te::Formula>& formulas, const Target& target);

}  // namespace xyntra
