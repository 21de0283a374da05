// Windows that reach beyond their picture: which of their products lie inside.
//
//   y[p] = sum(u < 3) x[p + u - 1] * w[u]        the first p has nothing at u = 0, the last nothing at u = 2
//
// Outside is zero, and a product with it adds nothing unless the weight is infinite or NaN: where a schedule says that
// weights are finite (kSkipPadding), such products are left out, and no picture with a border is made. A tile takes some p
// in a row; where all of them lie inside for a u depends on the tile: those at either end have fewer.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schedule/analysis/access_analysis.h"

namespace xyntra {

inline constexpr std::string_view kSkipPadding = "skip_padding";  // a knob

struct WindowBorder {
  // index = turn * step + offset * spread + first, inside where 0 <= index < extent
  struct Side {
    std::size_t dimension = 0;
    te::VarId turn, offset;
    std::int64_t step = 1, spread = 1, first = 0, extent = 0;
    std::int64_t turns = 0, offsets = 0;
  };
  std::vector<Side> sides;  // of the dimensions where windows reach beyond
  te::BufferId picture;
  std::vector<te::Expr> index;

  const Side* along(te::VarId turn) const;
  const Side* across(te::VarId offset) const;
  // Whether an index of a side, index[side.dimension] at some turn and offset, lies inside.
  static te::Expr inside(const Side& side, const te::Expr& at);
};

// Of an element that is zero outside; nothing where it has another form, or sizes are not known.
std::optional<WindowBorder> window_border(const AccessAnalysis& analysis, const te::Stage& stage,
                                          const te::Expr& element);

// The rows of a tile that lie inside, from and up to.
struct RowsInside {
  std::int64_t from = 0, to = 0;
  bool operator==(const RowsInside&) const = default;
};
using RowsByOffset = std::vector<RowsInside>;
RowsByOffset rows_inside(const WindowBorder::Side& side, std::int64_t first_row, std::int64_t rows);

// Tiles of as many rows, one after another, that have the same rows inside.
struct TileRun {
  std::int64_t first = 0, count = 0;
  RowsByOffset inside;
};
std::vector<TileRun> tile_runs(const WindowBorder::Side& side, std::int64_t tiles, std::int64_t rows);

}  // namespace xyntra
