// How long a GPU takes where it has too few threads to hide that they wait: for memory, for one another's results.
#pragma once

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// Whether it has other threads to run where some wait: all GPUs, and no CPU that plays one.
bool hides_waiting(const Target& target);

// Nothing where threads are many, or where the schedule is not one of these: rows, stages, contractions, windows.
std::int64_t waiting_ns(const te::Formula& formula, const Schedule& schedule, const SymbolBindings& nominal);

// By a GPU's own clock, which does not count what a launch takes elsewhere.
std::int64_t by_device_ns(const Target& target, std::int64_t floor_ns, std::int64_t waiting);

}  // namespace xyntra
