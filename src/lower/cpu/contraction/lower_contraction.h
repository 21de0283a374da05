// Contractions and convolutions on a CPU: register tiles.
//
//   y[m, n] = finish(sum(k) a[m, k] * b[k, n])
//
// One work item makes a tile of rows × columns of the result and keeps all of it in vector registers while it walks k:
// each turn loads the columns of b once, and broadcasts one element of a for each row. Lanes run along an axis of the
// result that b is contiguous in; weights are packed so by the plan's layouts. What has to be computed before the sum can
// read it (a norm, a padded picture) is made first, by phases of the same launch.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Phases of the stage; empty when it is of another form after all.
std::vector<kir::Stmt> lower_contraction(Lowering& lowering, const te::Stage& stage,
                                         const Schedule& schedule);

// Rows [first, first + count * tiles) of the stage along `axis`, for all columns, inside one work item; the other rows are
// bound. An undefined statement when the stage is of another form.
struct RowBlock {
  te::VarId axis;
  te::Expr first;
  std::int64_t count = 1;  // of a register tile
  std::int64_t tiles = 1;
  bool ahead = false;  // panels lie one behind the other: while tiles use one, they ask for the next
  // Adds every element of a row to what its target holds, lane by lane, once it is stored; the epilogue is written out for
  // every register. A stage that has the same loops, and `lane` for the number of a vector's lane.
  const te::Stage* added = nullptr;
  te::VarId lane = {};
};
kir::Stmt lower_row_block(Lowering& lowering, const te::Stage& stage, const Schedule& schedule,
                          te::Substitution bound, const RowBlock& rows);

}  // namespace xyntra
