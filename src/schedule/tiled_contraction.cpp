#include "schedule/tiled_contraction.h"

#include <algorithm>

namespace xyntra {

namespace {

constexpr std::size_t kMostRuns = 3;  // of tiles that lie beyond a picture in other ways: the kernel has each

}  // namespace

TiledContraction::TiledContraction(Lowering& lowering_to, const te::Stage& stage_of,
                                   ContractionRoles roles_in, const Schedule& schedule)
    : lowering(lowering_to),
      stage(stage_of),
      roles(std::move(roles_in)),
      fused(schedule.exactness != Exactness::Exact && is_float(stage.body.dtype())),
      tiling(lowering, stage, roles, schedule, fused) {
  if (std::ranges::find(schedule.knobs, kSkipPadding, &Knob::name) != schedule.knobs.end())
    border = window_border(lowering, stage, roles.row_factor);
  if (!skips_border()) border.reset();
}

// Whether windows reach beyond their picture, and tiles can leave out what they have there.
bool TiledContraction::skips_border() const {
  if (!border || roles.lane_in_rows || !tiling.tile.valid() || tiling.cut_rows().clamped) return false;
  if (side() == nullptr) return true;
  // Rows inside must be known for each offset. An offset is written out, with a loop inside it: elements that several
  // offsets have in common would otherwise be kept in registers, and sums leave these.
  const te::VarId offset = side()->offset;
  if ((fused ? tiling.reduction_order() : stage.reduction).back() == offset) return false;
  auto is_walked = [&](const std::optional<SumCut>& depth) {
    return !depth || std::ranges::find(depth->inner, offset) != depth->inner.end();
  };
  for (const ColumnRun& across : tiling.runs_of_columns()) {
    if (!is_walked(tiling.cut_for_cache(across))) return false;
  }
  return is_walked(tiling.cut_sum(kLongestSum)) && runs_of_tiles(tiling.cut_rows()).size() <= kMostRuns;
}

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
