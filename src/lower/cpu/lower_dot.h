// Contractions whose operands both lie along the sum: tiles of dot products.
//
//   y[m, n] = finish(sum(k) a[m, k] * b[n, k])
//
// Lanes run along k. A tile of rows × columns keeps a vector of partial sums for each of its elements; a vector of a is
// used for every column of the tile and one of b for every row. The lanes are added up at the end, in a fixed order.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Phases of the stage; empty when it is of another form, or when its sums must keep their order.
std::vector<kir::Stmt> lower_dot(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);

}  // namespace xyntra
