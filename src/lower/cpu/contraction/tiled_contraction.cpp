#include "lower/cpu/contraction/tiled_contraction.h"

namespace xyntra {

TiledContraction::TiledContraction(Lowering& lowering_to, const te::Stage& stage_of,
                                   ContractionRoles roles_in, const Schedule& schedule)
    : lowering(lowering_to),
      stage(stage_of),
      roles(std::move(roles_in)),
      fused(adds_fused(stage, schedule)),
      tiling(lowering, stage, roles, schedule, fused),
      border(tiling.skipped_border(schedule)) {}

kir::Stmt TiledContraction::unrolled(const char* label, std::int64_t turns, const AtNumber& body) const {
  if (turns == 1) return body(te::Expr::index(0));
  const te::VarId loop = lowering.loop(label, turns);
  return kir::Stmt::loop(kir::LoopKind::Unrolled, loop, body(te::Expr::variable(loop)));
}

kir::Stmt TiledContraction::lanes(std::int64_t width, const AtNumber& body) const {
  if (width == 1) return body(te::Expr::index(0));
  const te::VarId lane = lowering.loop("l", width);
  return kir::Stmt::loop(kir::LoopKind::Vector, lane, body(te::Expr::variable(lane)));
}

kir::Stmt TiledContraction::where_column(const ColumnRun& across, const te::Expr& vector,
                                         const te::Expr& lane, kir::Stmt inside, kir::Stmt outside) const {
  if (!across.masked) return inside;
  const te::Expr column = across.base + vector * te::Expr::index(across.width) + lane;
  return kir::Stmt::branch(column < te::Expr::size(extent(roles.lane)), std::move(inside),
                           std::move(outside));
}

std::vector<TileRun> TiledContraction::runs_of_tiles(const RowCut& cut) const {
  return tile_runs(*side(), cut.full.constant(), tiling.rows);
}

RegisterRows TiledContraction::last_rows(std::int64_t first, std::int64_t count) const {
  return {te::Expr::index(first), count, false,
          side() != nullptr ? rows_inside(*side(), first, count) : RowsByOffset()};
}

}  // namespace xyntra
