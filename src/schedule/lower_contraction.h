// Contractions and convolutions on a CPU: register tiles.
//
//   y[m, n] = finish(sum(k) a[m, k] * b[k, n])
//
// One work item makes a tile of rows × columns of the result and keeps all of it in vector registers while it walks k:
// each turn loads the columns of b once, and broadcasts one element of a for each row. Lanes run along an axis of the
// result that b is contiguous in; weights are packed so by the plan's layouts. What has to be computed before the sum can
// read it (a norm, a padded picture) is made first, by phases of the same launch.
#pragma once

#include "plan/plan.h"
#include "schedule/lowering.h"

namespace xyntra {

// The operand of a stage that is broadcast row by row; undefined when the stage has another form.
te::Expr row_factor_of(const te::Formula& formula, std::size_t stage, const Target& target,
                       const SymbolBindings& nominal);

// Whether tiles leave out what a stage's windows have beyond their picture (window_border.h), as its schedule allows.
bool skips_border(const te::Formula& formula, std::size_t stage, const Schedule& schedule,
                  const Target& target, const SymbolBindings& nominal);

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
// Products of vectors, lane by lane: the axis of the lanes, and those that only the other factor depends on.
struct LaneRows {
  te::VarId lane;
  std::vector<te::VarId> rows;
};
std::optional<LaneRows> lane_rows_of(const Lowering& lowering, const te::Stage& stage);
// The row axes of a stage: those that only the operand that is broadcast depends on.
std::vector<te::VarId> row_axes_of(const Lowering& lowering, const te::Stage& stage);

}  // namespace xyntra
