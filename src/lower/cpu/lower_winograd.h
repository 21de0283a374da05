// Windows by Winograd (schedule/convolution/winograd.h) on a CPU. A work item takes some rows of tiles of one picture through everything:
// its elements are added up in registers and kept, n² products of matrices go over them for one panel of filters after
// another, and what these make becomes results at once. All of that stays in the second cache. Small pictures have too few
// tiles for several work items: their elements are made ready by a phase before, and work items are panels of filters.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Of a formula that winograd_formula made, laid out or not. Undefined where knobs and sizes do not go together.
// One: each block of tiles goes through all of it. Two: the elements of all tiles are transformed before any is multiplied.
enum class WinogradPhases : std::uint8_t { One, Two };
kir::Stmt lower_winograd(Lowering& lowering, const Schedule& schedule, WinogradPhases phases);

}  // namespace xyntra
