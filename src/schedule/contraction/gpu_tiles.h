// How GEMMs without matrix units are cut for GPUs: the knobs of group_tiles, skinny_gemm and thread_tiles. While a plan is made they are
// chosen here; what a plan says is obeyed, or refused where a kernel cannot have it.
#pragma once

#include <optional>

#include "schedule/contraction/product_sides.h"
#include "schedule/forms.h"

namespace xyntra {

inline constexpr std::int64_t kVectorOfThread = 4;  // f32 elements of one access: 16 bytes
inline constexpr std::int64_t kThreadsOfGroup = 256;  // at most, on every device

// Elements of the result that one thread sums, how far it goes along a tile, threads along a side of a block. Several slices
// of threads share the tile out: each sums the same block over a part of its depth.
struct GroupTile {
  std::int64_t rows = 4, columns = 4, depth = 16, side = 8, slices = 1;
  std::int64_t prefetch = 1;  // tiles on their way to registers
  std::int64_t padding =
      kVectorOfThread;  // elements between rows of a tile: neighbours lie in different banks
  std::int64_t block_rows() const { return rows * side; }
  std::int64_t block_columns() const { return columns * side; }
  std::int64_t whole_depth() const { return depth * slices; }
  std::int64_t threads() const { return side * side * slices; }
};
// `row_numbers`: that are made for each row first.
std::optional<GroupTile> choose_group_tile(const AccessAnalysis& analysis, const ProductSides& sides,
                                           std::int64_t row_numbers, Forms& forms);

// Threads of a workgroup for few rows: `across` its columns, `slices` along the sum. Vectors lie along the columns or along the sum.
struct SkinnyGroup {
  bool deep = false;  // along the sum
  std::int64_t across = 0, slices = 0;
  std::int64_t prefetch = 1;  // steps whose weights are on their way
  std::int64_t columns() const { return deep ? across : across * kVectorOfThread; }
  std::int64_t depth_of_turn() const { return deep ? slices * kVectorOfThread : slices; }
};
inline constexpr std::int64_t kFirstSums = 4;  // slices that a thread adds up first
// Nothing where weights come in vectors along neither.
std::optional<SkinnyGroup> choose_skinny_group(const AccessAnalysis& analysis, const ProductSides& sides,
                                               Forms& forms);

// What one thread sums: rows × parts × width, the parts of neighbours between one another.
struct ThreadTile {
  static constexpr std::int64_t kNeighbours = 4;  // adjacent threads along the columns
  std::int64_t rows = 1, parts = 1, width = 1;
  std::int64_t block() const { return parts * kNeighbours * width; }
};
ThreadTile choose_thread_tile(const AccessAnalysis& analysis, const ProductSides& sides, Forms& forms);

}  // namespace xyntra
