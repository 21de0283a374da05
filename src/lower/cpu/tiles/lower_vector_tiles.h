// Products of bf16 factors, or of bytes, on units that multiply a few neighbours along the sum into a vector of sums (AVX512_BF16,
// BFMMLA; AVX512_VNNI, SMMLA).
//
//   y[m, n] = finish(sum(k) f32(a[m, k]) * f32(b[k, n]))         a, b: bf16; sums in f32; or bytes and i32
//
// One work item takes some panels of 16 columns through tiles of rows. A tile keeps all its sums in vector registers for the
// whole of k, window included. By lines, a vector of b is 16 columns by 2 of k (4 where they are bytes) and is multiplied by a pair
// of one row of a, sent to all lanes: 14 rows by 32 columns fill the registers. By squares, a vector of b is 2 columns by 4 of k
// (8), one of a 2 rows by 4, and the sums are 2 × 2: 6 rows by 16 columns. b lies in panels that are read from one end to the other (paired_layout), rows of a
// from where they are, as tiles read them (prepare_tiles.h).
#pragma once

#include "lower/cpu/contraction/lower_contraction.h"
#include "schedule/contraction/tile_form.h"

namespace xyntra {

// Rows [first, first + count) of a stage of attention that was made ready, for all columns, inside one work item; `count` comes out
// even in tiles. Sums leave the registers by way of `kept`. Rows before `from` are not stored, where it is given.
kir::Stmt lower_vector_block(Lowering& lowering, const te::Stage& stage, kir::BufferId kept,
                             const te::Substitution& bound, const RowBlock& rows, const te::Expr& from);

}  // namespace xyntra
