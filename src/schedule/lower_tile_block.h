// Products of attention on a tile unit: some rows of them, for all columns, inside one work item.
#pragma once

#include "schedule/lower_contraction.h"

namespace xyntra {

inline constexpr std::int64_t kTileBlockRows = 32;  // at most: two tiles of them

// The tile registers and the memory that their sums go through, shared by all blocks of a kernel.
struct TileScratch {
  kir::BufferId sum, left, right, kept;
};
TileScratch tile_scratch(Lowering& lowering);

// Rows [first, first + count) of a stage that was made ready (prepare_attention_tiles); `count` is 1, 16 or 32. Rows
// before `from` are not stored, where it is given. Undefined when the stage is of another form.
kir::Stmt lower_tile_block(Lowering& lowering, const te::Stage& stage, const TileScratch& scratch,
                           const te::Substitution& bound, const RowBlock& rows, const te::Expr& from);

}  // namespace xyntra
