// The search for the order in which buffers are stacked in the arena (runtime/offsets.h says what an order does).
//
// Several heuristics are tried, then the best order found is improved by moving the blocks at the top of the stack
// forward; the lowest peak wins, ties go to the one tried first. All of it is counted, nothing is timed or random.
#pragma once

#include <string_view>

#include "runtime/offsets.h"

namespace xyntra {

struct ArenaPlan {
  std::vector<std::size_t> order;  // a permutation of the requests
  std::string_view heuristic;  // the one that won, for reports
  struct Bound {
    std::int64_t peak = 0, lower_bound = 0;
  };
  std::vector<Bound> samples;  // what the order gives for each of the sample bindings
};

// `samples`: sizes the plan should be good for (others are right too, but perhaps less tight), at least one; the worst
// ratio of peak and lower bound among them is what is made small. Errors are those of assign_offsets.
Result<ArenaPlan> plan_arena(std::span<const ArenaRequest> requests, std::span<const SymbolBindings> samples);
Result<ArenaPlan> plan_arena(std::span<const ArenaRequest> requests, const SymbolBindings& bindings = {});

}  // namespace xyntra
