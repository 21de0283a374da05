// How a tile goes along its sum: turn by turn, or in passes over parts of it.
//
//   sum(k < 512) a[m, k] * b[k, n]        two passes of 256 turns; what the first has added up is kept for the second
//
// Many tiles may go through one pass after another, so that the lines of b that it reads stay in the cache; one tile does
// for the sake of digits: short sums that are added up lose fewer than one long one.
#pragma once

#include <functional>

#include "lower/cpu/contraction/lines_ahead.h"
#include "lower/cpu/contraction/tiled_contraction.h"

namespace xyntra {

// One of the passes over the tiles of a work item, or over one tile; their sums are kept in between. The first has nothing
// to add to, the last finishes.
struct SumPass {
  const SumCut* depth = nullptr;
  kir::BufferId kept;
  std::vector<te::Expr> place;  // of the tile among those kept
  te::Expr turn;  // of the axis that is split
  te::Expr number;  // of this one, of so many
  std::int64_t count = 1;
  bool alone = false;  // one tile goes through all passes before the next begins
  kir::BufferId
      panel;  // the lines of b that it reads, where they are made once for all tiles (line_panels.h)
};

// The passes over a sum, one after another; what each does is made once its number and turn are known.
kir::Stmt in_passes(const TiledContraction& contraction, const te::Substitution& bound, SumPass& pass,
                    const std::function<kir::Stmt(const te::Substitution&)>& one);

// What is done at each turn of a sum; `only_ask`: nothing but to ask for what is needed later.
using SumTurn = std::function<kir::Stmt(const te::Substitution& bound, const Walk& walk, bool only_ask)>;

// The sums that a tile keeps in registers, none where it only copies, and how many partial ones each consists of.
struct TileSums {
  std::int64_t registers = 0;
  std::int64_t chains = 1;
};

// All turns, or those of one pass. `by_offset`: some rows of the tile lie beyond the feature map at some offsets of the
// window, and each of these is written out. Iterations of the innermost loop are interleaved over the partial sums; of a small
// tile they are unrolled where they are few.
kir::Stmt along_sum(const TiledContraction& contraction, const te::Substitution& bound, const SumPass* pass,
                    bool by_offset, const TileSums& sums, const SumTurn& turn);

// Partial sums of a tile of so many registers: an fma waits for the one before it that adds to the same register, so a small tile
// keeps several sums and adds them up in the end. Never more than the innermost loop has iterations.
std::int64_t chains_of(const TiledContraction& contraction, const SumPass* pass, bool by_offset,
                       std::int64_t registers);

}  // namespace xyntra
