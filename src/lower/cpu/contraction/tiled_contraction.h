// A contraction that is cut into register tiles: what all parts of its lowering (lower_contraction.h) know of it.
#pragma once

#include <functional>

#include "lower/lowering.h"
#include "schedule/contraction/contraction_tiling.h"

namespace xyntra {

// Rows of a register tile.
struct RegisterRows {
  te::Expr first;
  std::int64_t count = 1;
  bool clamped = false;  // those beyond the last repeat it
  RowsByOffset by_offset;  // that lie inside, where windows reach beyond their picture
};

class TiledContraction {
 public:
  TiledContraction(Lowering& lowering_to, const te::Stage& stage_of, ContractionRoles roles_in,
                   const Schedule& schedule);

  Lowering& lowering;
  const te::Stage& stage;
  const ContractionRoles roles;
  const bool fused;  // products are added without being rounded, and in another order where that is better
  ContractionTiling tiling;
  std::optional<WindowBorder> border;  // that tiles leave out

  bool packs_lines = false;  // into panels, which the tiles of a work item share (line_panels.h)

  // Of a block of rows (RowBlock).
  bool ahead = false;
  const te::Stage* added = nullptr;
  te::VarId added_lane;

  const Dim& extent(te::VarId axis) const { return lowering.formula().variable(axis).extent; }
  const std::string& name(te::VarId axis) const { return lowering.formula().variable(axis).name; }

  // Statements over the vectors of a tile, and over the lanes of a vector.
  using AtNumber = std::function<kir::Stmt(const te::Expr& number)>;
  kir::Stmt unrolled(const char* label, std::int64_t turns, const AtNumber& body) const;
  kir::Stmt lanes(std::int64_t width, const AtNumber& body) const;
  // Lanes of a masked run may lie beyond the last column.
  kir::Stmt where_column(const ColumnRun& across, const te::Expr& vector, const te::Expr& lane,
                         kir::Stmt inside, kir::Stmt outside) const;

  // Where windows reach beyond their picture along the rows of a tile; null elsewhere.
  const WindowBorder::Side* side() const { return border ? border->along(tiling.tile) : nullptr; }
  // Full tiles that have the same rows inside; only where there is a side.
  std::vector<TileRun> runs_of_tiles(const RowCut& cut) const;
  // The rows that are left after the full tiles.
  RegisterRows last_rows(std::int64_t first, std::int64_t count) const;
};

}  // namespace xyntra
