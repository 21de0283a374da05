// Matrix products on the matrix units of warps, for GPUs: a work item is a block of threads that copies tiles of both operands into
// shared memory, several steps ahead of their use, and whose warps multiply fragments of them into sums in registers.
//
//   for k < K/32:   wait for tile k; barrier; copy tile k + 3 to where tile k - 1 was; every warp: c[64, 64] += a[64, 32] * b[32, 64]
//
// Of few rows each block has some columns and the whole reduction (deep tiles): warps share out the depth of each tile, and add up what
// they have in their order at the end, so that there is one launch however long the sum. Tiles of the columns' operand are asked for
// first: weights come while the launch before this one ends.
//
// Factors are f16 or bf16, plain operands of either layout or what is computed from them; sums are f32, in another order than written. Of
// bytes, with a sign or without, sums are i32, and exact.
//
// A convolution is such a product, too (an implicit GEMM): rows are pixels, columns filters, and the reduction goes along the window
// and, innermost, the channels. Where these are contiguous in memory, 16 bytes of a tile are 8 channels of one pixel, or zeros outside
// of the feature map; elsewhere elements pass through registers one by one.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"
#include "schedule/contraction/product_sides.h"

namespace xyntra {

// Whether the target has such a unit for the factors of the stage, a product that is worth tiles.
bool has_warp_tiles(const Lowering& lowering, const te::Stage& stage, const Schedule& schedule);
// The product of such a stage; nothing elsewhere, or where loops of the sum could not be told from a position.
std::optional<ProductSides> sides_of_tiles(const Lowering& lowering, const te::Stage& stage,
                                           const Schedule& schedule);
// Whether tiles of both its factors are copied as they lie, 16 bytes at a time.
bool has_copied_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);
// No statement elsewhere.
kir::Stmt lower_warp_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);

}  // namespace xyntra
