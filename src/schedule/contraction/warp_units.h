// Which matmuls the matrix units of warps multiply: of two factors in f16 or bf16, of f32 where it may be read as tf32, and of bytes (i8, u8,
// either of either) with sums in i32, which are exact.
#pragma once

#include "plan/plan.h"
#include "schedule/choose.h"
#include "schedule/contraction/product_sides.h"

namespace xyntra {

// Whether a target's units of warps take bytes.
bool multiplies_bytes(const Target& target);
// The sides of a product in f32, or of bytes in i32.
std::optional<ProductSides> sides_for_units(const AccessAnalysis& analysis, const te::Stage& stage);
// Both factors are of one dtype that the target has such a unit for, or bytes.
bool has_warp_unit(const AccessAnalysis& analysis, const ProductSides& sides, bool tf32);
// Whether positions of a side tell its loops: all but the outermost have constant sizes.
bool has_constant_digits(const AccessAnalysis& analysis, const Side& side);
// Whether there are results and terms enough that tiles are the faster way.
bool is_worth_tiles(const AccessAnalysis& analysis, const ProductSides& sides);

// The schedule for a GEMM of f32 whose operands are rounded to tf32 where they are multiplied (precision-changing); nothing where no
// unit takes them.
std::optional<Choice> as_tf32(const te::Formula& formula, const Choice& choice, const Target& target,
                              const ChooseOptions& options);

}  // namespace xyntra
