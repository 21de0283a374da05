// How many tiles of a contraction one work item has, where they go through the passes of a sum together (sum_walk.h): so
// many that lines of b are used again and again while they are in the cache, so few that all threads have work.
#pragma once

#include "lower/cpu/contraction/tiled_contraction.h"

namespace xyntra {

struct TilesTogether {
  te::VarId
      line;  // another axis of rows, which `lines` rows of tiles stand along; invalid where there is none
  std::int64_t lines = 1, tiles = 1;
};

// Nothing where nothing is gained by passes.
std::optional<TilesTogether> tiles_together(const TiledContraction& contraction, const ColumnRun& across,
                                            const SumCut& depth, const RowCut& cut);

}  // namespace xyntra
