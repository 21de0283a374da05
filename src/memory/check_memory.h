// Checks the memory of a plan that somebody else wrote: a lock is untrusted. The offsets that follow from it are
// verified by verify_arena.h and verify_lifetimes.h.
#pragma once

#include "memory/plan_memory.h"

namespace xyntra {

// BadModel error that names the first thing wrong, unless
//   - every value that groups read or write has one buffer, of a kind it can have; views are those that `needs` tells
//   - a slot has the size of the values in it, whatever the sizes are, and is in use while any of them is
//   - the order names every slot once
//   - at the nominal sizes every read finds the bytes that were written for it, and nothing overlaps
Status check_memory(const Graph& graph, const MemoryPlan& plan, const MemoryNeeds& needs);

}  // namespace xyntra
