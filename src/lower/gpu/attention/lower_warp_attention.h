// Attention by the matrix units of warps.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Undefined where queries, keys, weights and values are not all of one dtype of 16 bits that the target multiplies.
kir::Stmt lower_warp_attention(Lowering& lowering, const Schedule& schedule);

}  // namespace xyntra
