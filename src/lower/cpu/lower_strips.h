// Windows that look at each channel alone (depthwise convolutions, pools), over a picture with a border.
//
//   p = x with a border; y[c, i, j] = finish(sum(ky, kx) p[c, i + ky, j + kx] * w[c, ky, kx])
//                        y[c, i, j] = max(ky, kx) p[c, i + ky, j + kx]
//
// There is little arithmetic for each element, so a copy of the whole picture costs more than the sum. One work item makes
// some rows of the result, and the few rows of p that these need stay in its cache.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Undefined when the formula is not of this form.
kir::Stmt lower_strips(Lowering& lowering, const Schedule& schedule);

}  // namespace xyntra
