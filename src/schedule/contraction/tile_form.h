// Which stages are products that a unit for bf16 or for bytes (i8, u8) can make, and how their weights lie for it.
#pragma once

#include "schedule/analysis/access_analysis.h"
#include "types/layout.h"

namespace xyntra {

// What multiplies factors of a dtype on a target: whole tiles (AMX); or vectors of sums, of 16 columns of one row (AVX512_BF16,
// AVX512_VNNI) or of 2 × 2 (BFMMLA, SMMLA). Bytes are i8 and u8: some units take not all signs.
enum class ProductUnit : std::uint8_t { None, Tiles, Lines, Squares };
ProductUnit product_unit(const Target& target, DType factors = DType::BF16);

// Of one tile: 16 rows of 64 bytes. The second factor has pairs along the sum in its rows, quads where they are bytes.
inline constexpr std::int64_t kTileRows = 16, kTileColumns = 16, kTilePairs = 16, kTileRowBytes = 64;
inline constexpr std::int64_t kTileDepth = 32;  // of bf16
std::int64_t tile_depth(DType factors);

// What a factor is the widening of, from bf16 to f32 or from a byte to i32; undefined where it is none. A border of zeros is
// seen through: select(inside, f32(x[…]), 0) is f32(load_or(0, x[…])).
te::Expr narrow_factor(const te::Formula& formula, const te::Expr& factor);

// sum(k, deeper) f32(a[batch, rows, k, deeper]) * f32(b[batch, n, columns, k, deeper]): who depends on what.
struct TileForm {
  te::Expr a, b;  // both bf16, or both bytes; then sums are i32
  te::VarId k, n;
  std::vector<te::VarId> deeper, rows, columns, batch;  // the other loops

  DType sum() const { return a.dtype() == DType::BF16 ? DType::F32 : DType::I32; }
  std::int64_t depth() const { return tile_depth(a.dtype()); }
};
// Whether n and k may be sizes that are known only when a model runs.
enum class TileSizes : std::uint8_t { Constant, Any };
std::optional<TileForm> tile_form(const te::Formula& formula, const te::Stage& stage,
                                  const SymbolBindings& nominal, TileSizes sizes = TileSizes::Constant);

// Whether panels of columns are the outermost loop, `columns_together` of them at a time, with so many groups of rows: what is
// read again and again should be what stays in a cache.
bool panels_are_outside(const AccessAnalysis& analysis, const te::Stage& stage, const TileForm& form,
                        std::int64_t columns_together, std::int64_t row_groups);

// Whether the target has a unit for the factors of a form, with the signs they have.
bool has_unit(const Target& target, const TileForm& form);

// How many neighbours along the sum are adjacent: four bytes of them, or eight where sums are 2 × 2.
std::int64_t neighbours(const Target& target, DType factors);
// A weight whose dimension `columns` runs along the result and `depth` along the sum, as units read it:
// [n/16, the others…, k/32, k/2%16, n%16, k%2], or the same with quads, [n/16, …, k/32, k/4%8, n%16, k%4]; of bytes
// [n/16, …, k/64, k/4%16, n%16, k%4], or octets.
struct PairedAxes {  // the dimensions of a weight that products read
  std::size_t columns = 0, depth = 0;
};
Layout paired_layout(std::size_t rank, const PairedAxes& axes, const Target& target, DType factors);
// b lies so, or with its last two dimensions as one, [n/16, …, k/32, k/2%16, n%16*2 + k%2].
bool is_paired(const te::Formula& formula, const TileForm& form);
std::size_t pair_dimension(const Shape& shape);  // of a buffer that lies so: k/2%16 or k/4%8

// Nothing where the buffer is not read as a weight.
std::optional<PairedAxes> paired_axes(const te::Formula& formula, te::BufferId buffer);

// Laying out a formula leaves loops over digits of n and k behind, one for each part of the layout. They become loops over
// n and k again: sum(i, j, e) a[m, 32 i + 2 j + e] * b[…, i, j, n0, e] is sum(k) a[m, k] * b[…, k/32, k/2%16, n%16, k%2].
void join_digits(te::Formula& formula);

}  // namespace xyntra
