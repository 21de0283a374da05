// Form warpgroup_tiles: a product by the matrix units of warpgroups, which read both operands from shared memory by themselves.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Undefined where the stage is no product of 16-bit operands that come in chunks of 16 bytes, or where units of warps are faster.
kir::Stmt lower_warpgroup_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);

}  // namespace xyntra
