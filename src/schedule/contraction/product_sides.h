// A sum of products of two factors as a product of matrices: which loops run along its rows, its columns and its sum.
#pragma once

#include <optional>

#include "schedule/analysis/access_analysis.h"

namespace xyntra {

// What one instruction of a warp multiplies: c[16, 8] += a[16, 16] * b[16, 8].
inline constexpr std::int64_t kFragmentRows = 16, kFragmentColumns = 8, kFragmentDepth = 16;
constexpr bool is_byte(DType dtype) { return dtype == DType::I8 || dtype == DType::U8; }
// Of elements of so many bytes: 32 bytes of each row.
constexpr std::int64_t fragment_depth(std::int64_t element_bytes) {
  return 2 * kFragmentDepth / element_bytes;
}
// What one asynchronous copy moves.
std::int64_t elements_of_chunk(DType dtype);

// Loops of one side as one, counted in row-major order.
struct Side {
  std::vector<te::VarId> axes;
  Dim extent = 1;

  void add(const te::Formula& formula, te::VarId axis);
  // The loops of the side at one of its positions.
  void bind(const te::Formula& formula, const te::Expr& position, te::Substitution& bound) const;
};

// The index of these extents that a position is at, in row-major order.
std::vector<te::Expr> index_at(const te::Expr& position, std::span<const Dim> extents);

struct ProductSides {
  te::Expr left, right;  // factors: of rows, of columns
  Side rows, columns, depth;
  std::vector<te::VarId> batch, ones;  // loops of both factors; loops of one turn
};

// Nothing where the stage is no such sum in f32, or another dtype. Columns are what the result is written along; a position of a side tells
// its loops.
std::optional<ProductSides> product_sides(const AccessAnalysis& analysis, const te::Stage& stage,
                                          DType sum = DType::F32);

// What a factor is before it becomes f32, zero wherever the factor is: of `select(0 <= h < H, f32(x[h]), 0)` it is x[h] or 0.
te::Expr narrow_factor(const AccessAnalysis& analysis, const te::Expr& factor);
// Depth in the order in which memory is read: a loop that chunks of a factor lie along comes last.
void order_depth(const AccessAnalysis& analysis, ProductSides& sides);

// Whether a factor reads neighbours in memory along an axis.
bool lies_along(const AccessAnalysis& analysis, const te::Expr& factor, te::VarId axis);
// Whether all that it reads is contiguous along an axis, or invariant.
bool comes_in_vectors(const AccessAnalysis& analysis, const te::Expr& factor, te::VarId axis);
// Whether a factor is memory whose elements come in chunks of 16 bytes along an axis, contiguous and from multiples of 16 bytes on; each
// of these is inside the memory, or zero.
bool comes_in_chunks(const AccessAnalysis& analysis, const te::Expr& factor, te::VarId along);

// Whether a position is inside a side; undefined where blocks cover it exactly.
te::Expr inside(const te::Expr& position, const Dim& extent, std::int64_t block);
// Of conditions that are undefined where they always hold.
te::Expr conjunction_of(const te::Expr& a, const te::Expr& b);
te::Expr zero_outside(const te::Expr& is_inside, const te::Expr& value);

}  // namespace xyntra
