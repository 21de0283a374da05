#include "lower/cpu/contraction/tiles_together.h"

#include <algorithm>

namespace xyntra {

using te::VarId;

namespace {

constexpr std::int64_t kTiles = 16;  // of one work item that is summed in passes
constexpr std::int64_t kPassTiles = 3;  // with fewer nothing is gained by passes
constexpr std::int64_t kPanelTiles = 2;  // that a panel is made for
constexpr std::int64_t kItems = 16;  // that a kernel should have at least, for threads to share

// Work items that differ in their columns alone.
std::int64_t column_items(const TiledContraction& contraction, const ColumnRun& across) {
  const Lowering& lowering = contraction.lowering;
  std::int64_t items = std::max<std::int64_t>(1, lowering.size(across.blocks));
  for (VarId axis : contraction.roles.columns) {
    items *=
        axis == contraction.tiling.second ? across.second_tiles : lowering.size(contraction.extent(axis));
  }
  return items;
}

std::int64_t largest_divisor(std::int64_t of, std::int64_t most) {
  std::int64_t divisor = std::min(of, most);
  while (divisor > 1 && of % divisor != 0) --divisor;
  return divisor;
}

// Less than `part` of so many in a work item, where there would be too few for all threads; but not so few that nothing is
// gained by passes.
std::int64_t shared_out(std::int64_t of, std::int64_t part, std::int64_t items, std::int64_t tiles) {
  while (part > 1 && items * (of / part) < kItems) {
    const std::int64_t fewer = largest_divisor(of, part - 1);
    if (fewer < 1 || fewer * tiles < kPassTiles) break;
    part = fewer;
  }
  return part;
}

// The same of a number that need not come out even.
std::int64_t shared_out_evenly(std::int64_t of, std::int64_t part, std::int64_t items, std::int64_t tiles) {
  auto parts = [&of](std::int64_t each) { return (of + each - 1) / each; };
  part = std::clamp<std::int64_t>(part, 1, std::max<std::int64_t>(1, of));
  while (part > 1 && items * parts(part) < kItems && (part - 1) * tiles >= kPassTiles) --part;
  return parts(parts(part));
}

}  // namespace

std::optional<TilesTogether> tiles_together(const TiledContraction& contraction, const ColumnRun& across,
                                            const SumCut& depth, const RowCut& cut) {
  const ContractionTiling& tiling = contraction.tiling;
  const Dim &full = cut.full, &rest = cut.rest;
  if (full.is(0) || depth.turns == 0) return std::nullopt;  // nothing to share
  TilesTogether made;
  for (VarId axis : contraction.roles.rows) {
    if (axis != tiling.tile && contraction.lowering.size(contraction.extent(axis)) > 1) made.line = axis;
  }
  if (made.line.valid()) {
    const Lowering& lowering = contraction.lowering;
    const std::int64_t most = lowering.size(full);
    const std::int64_t items = column_items(contraction, across);
    if (most > kTiles) return std::nullopt;
    const Dim& lines = contraction.extent(made.line);
    // Of sizes that are not known, what is expected: another number of tiles takes one more work item, or has idle ones.
    made.tiles = full.is_constant() ? full.constant() : most + (rest.is(0) ? 0 : 1);
    const std::int64_t together = kTiles / std::max<std::int64_t>(1, most);
    made.lines = lines.is_constant()
                     ? shared_out(lines.constant(), largest_divisor(lines.constant(), together), items, most)
                     : shared_out_evenly(lowering.size(lines), together, items, most);
  } else {
    // As many as their rows of a stay in the second cache. Where few come out even, the last work item has less to do.
    const std::int64_t row_bytes = depth.turns * std::max(bits_of(contraction.stage.body.dtype()) / 8, 1);
    const std::int64_t most =
        std::clamp<std::int64_t>(tiling.cache_bytes() / (tiling.rows * row_bytes), 4, kTiles);
    made.tiles = full.is_constant() ? largest_divisor(full.constant(), most) : most;
    if (full.is_constant() && made.tiles < std::min(full.constant(), most / 2)) made.tiles = most;
    if (full.is_constant() && made.tiles > 0 && full.constant() % made.tiles == 0)
      made.tiles = shared_out(full.constant(), made.tiles, column_items(contraction, across), 1);
  }
  const std::int64_t all = made.lines * (made.tiles + (rest.is(0) ? 0 : 1));
  if (all < (contraction.packs_lines ? kPanelTiles : kPassTiles)) return std::nullopt;
  return made;
}

}  // namespace xyntra
