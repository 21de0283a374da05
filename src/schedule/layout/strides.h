// What it costs that buffers do not lie along the lanes of the loops that read and write them.
//
// Lanes run along one loop of a stage. An access that moves by one element, or not at all, when the lane moves takes whole
// vectors; one that moves further takes its lanes one by one. What a stage costs is that of its best lane, so a formula can
// be asked what it would cost with its buffers laid out one way or another.
#pragma once

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// Nanoseconds beyond those of the same group with everything in order, from the target's table at nominal sizes. Layouts are
// applied to the formula already. Schedules that gather their operands into panels or blocks first cost nothing: attention, tiles.
std::int64_t strided_ns(const te::Formula& formula, const Schedule& schedule, const Target& target,
                        const SymbolBindings& nominal);
// And what products of few threads on a GPU wait for divisions of their places.
std::int64_t strided_and_divided_ns(const te::Formula& formula, const Schedule& schedule,
                                    const Target& target, const SymbolBindings& nominal);

}  // namespace xyntra
