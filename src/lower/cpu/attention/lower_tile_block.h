// Products of attention on a unit for bf16: some rows of them, for all columns, inside one work item.
#pragma once

#include "lower/cpu/contraction/lower_contraction.h"

namespace xyntra {

// Rows of a block: two tiles of AMX; what comes out even in registers elsewhere. Half a block is one, too.
std::int64_t tile_block_rows(const Target& target);

// The tile registers and the memory that their sums go through, shared by all blocks of a kernel.
struct TileScratch {
  kir::BufferId sum, left, right;  // of AMX alone
  kir::BufferId kept;
};
TileScratch tile_scratch(Lowering& lowering);

// Rows [first, first + count) of a stage that was made ready (prepare_attention_tiles); `count` is a block, half of one, or 1. Rows
// before `from` are not stored, where it is given. Undefined when the stage is of another form.
kir::Stmt lower_tile_block(Lowering& lowering, const te::Stage& stage, const TileScratch& scratch,
                           const te::Substitution& bound, const RowBlock& rows, const te::Expr& from);

}  // namespace xyntra
