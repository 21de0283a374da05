// Scans over sequences that do not depend on one another (schedule/recurrence.h), on CPUs: a work item takes some of them through all
// steps. What a step sums is a register tile of its sequences, whose weights come from the second cache; the rest goes element by element.
//
//   grid b < B/4 { h = 0;  for t < T { g = h * r;  h = tanh(x[t] + g) } }
#pragma once

#include <span>

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// The phases of the scan at the front of these stages, with those before and after it that go with it: `taken` of them. None where it is
// of another kind.
std::vector<kir::Stmt> lower_sequence_items(Lowering& lowering, const Schedule& schedule,
                                            std::span<const te::Stage> stages, std::size_t& taken);

}  // namespace xyntra
