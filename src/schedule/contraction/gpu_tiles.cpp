#include "schedule/contraction/gpu_tiles.h"

#include <algorithm>
#include <array>

namespace xyntra {

using te::VarId;

namespace {

constexpr std::int64_t kEnoughGroups = 96;  // that keep a device busy, whatever it is

std::int64_t batches_of(const AccessAnalysis& analysis, const ProductSides& sides) {
  std::int64_t batches = 1;
  for (VarId axis : sides.batch) batches *= analysis.size(analysis.formula().variable(axis).extent);
  return batches;
}

std::int64_t rounded_up(std::int64_t count, std::int64_t block) {
  return (count + block - 1) / block * block;
}

// ---- group_tiles

std::int64_t shared_bytes(const GroupTile& tile, std::int64_t row_numbers) {
  const std::int64_t both = tile.block_rows() + tile.block_columns() + 2 * tile.padding;
  std::int64_t elements = tile.whole_depth() * both;
  if (row_numbers > 0) elements += tile.threads() * tile.rows / tile.slices + row_numbers * tile.block_rows();
  return 4 * elements;
}

bool fits(GroupTile& tile, const Target& target, std::int64_t row_numbers) {
  tile.padding = kVectorOfThread;
  if (shared_bytes(tile, row_numbers) > target.group_shared_bytes) tile.padding = 0;
  return shared_bytes(tile, row_numbers) <= target.group_shared_bytes;
}

// Large blocks read less; they must be enough to keep the device busy. Where even small ones are few, each waits for one tile
// after another: slices make the way shorter.
GroupTile fastest_group_tile(const AccessAnalysis& analysis, const ProductSides& sides,
                             std::int64_t row_numbers) {
  constexpr std::array kTiles{GroupTile{8, 8, 16, 16}, GroupTile{4, 8, 16, 16}, GroupTile{4, 4, 16, 16}};
  constexpr GroupTile kSliced{4, 4, 8, 8, 4, 2};
  constexpr std::int64_t kTilesToSlice = 4;  // what adding up slices is worth
  const std::int64_t rows = analysis.size(sides.rows.extent), columns = analysis.size(sides.columns.extent);
  for (GroupTile tile : kTiles) {
    if (!fits(tile, analysis.target(), row_numbers)) continue;
    const std::int64_t blocks = batches_of(analysis, sides) *
                                (rounded_up(rows, tile.block_rows()) / tile.block_rows()) *
                                (rounded_up(columns, tile.block_columns()) / tile.block_columns());
    if (blocks >= kEnoughGroups) return tile;
  }
  return analysis.size(sides.depth.extent) >= kTilesToSlice * kSliced.whole_depth() ? kSliced : GroupTile{};
}

// ---- skinny_gemm

// Wide groups read long stretches of memory; there must be enough of them to keep the device busy.
SkinnyGroup fastest_skinny_group(const AccessAnalysis& analysis, const ProductSides& sides, bool deep) {
  constexpr std::int64_t kMostPrefetched = 8, kWidest = 16, kNarrowest = 2, kDeep = 8;
  const std::int64_t depth = analysis.size(sides.depth.extent);
  SkinnyGroup group{deep, deep ? kDeep : kWidest};
  if (!deep) {
    const std::int64_t columns = batches_of(analysis, sides) * analysis.size(sides.columns.extent);
    while (group.across > kNarrowest && columns / group.columns() < kEnoughGroups) group.across /= 2;
  }
  group.slices = kFirstSums;
  auto fills = [&](std::int64_t slices) {  // two steps at least
    return slices * group.across <= kThreadsOfGroup && slices * (deep ? kVectorOfThread : 1) * 2 <= depth;
  };
  while (fills(group.slices * 2)) group.slices *= 2;
  // Without a remainder where there is such a number.
  const Dim steps = ceil_div(sides.depth.extent, group.depth_of_turn());
  for (std::int64_t prefetch = 2; prefetch <= kMostPrefetched; ++prefetch) {
    if (te::divides(Dim(prefetch), steps) || (prefetch == kMostPrefetched / 2 && !steps.is_constant()))
      group.prefetch = prefetch;
  }
  return group;
}

// ---- thread_tiles

// The tile that computes least beyond the edges, of those that leave enough work items.
ThreadTile fastest_thread_tile(const AccessAnalysis& analysis, const ProductSides& sides,
                               std::int64_t width) {
  constexpr std::int64_t kItemsPerCore = 256;
  const std::int64_t rows = analysis.size(sides.rows.extent), columns = analysis.size(sides.columns.extent);
  const std::int64_t batches = batches_of(analysis, sides);
  ThreadTile best{1, 1, width};
  std::int64_t least = INT64_MAX;
  for (const std::int64_t high : {8, 6, 4, 2, 1}) {
    for (const std::int64_t wide : {8, 4}) {
      const ThreadTile tile{high, wide / width, width};
      const std::int64_t area = rounded_up(rows, high) * rounded_up(columns, tile.block());
      const std::int64_t items = batches * area / (high * wide);
      // For each step of the sum a thread reads high + wide elements and does high * wide multiplications.
      const std::int64_t cost = area * (16 * (high + wide) + 5 * high * wide) / (high * wide);
      if (cost >= least || (items < analysis.target().cores * kItemsPerCore && high > 1)) continue;
      least = cost;
      best = tile;
    }
  }
  return best;
}

}  // namespace

std::optional<GroupTile> choose_group_tile(const AccessAnalysis& analysis, const ProductSides& sides,
                                           std::int64_t row_numbers, Forms& forms) {
  const GroupTile chosen = forms.chooses() ? fastest_group_tile(analysis, sides, row_numbers) : GroupTile();
  GroupTile tile;
  tile.side = forms.knob("side", chosen.side);
  tile.slices = forms.knob("slices", chosen.slices);
  const std::int64_t rows = forms.knob("tile_rows", chosen.block_rows()),
                     columns = forms.knob("tile_columns", chosen.block_columns()),
                     depth = forms.knob("tile_depth", chosen.whole_depth());
  tile.rows = rows / tile.side;
  tile.columns = columns / tile.side;
  tile.depth = depth / tile.slices;
  tile.prefetch = forms.knob("prefetch", chosen.prefetch);
  auto is_whole = [](std::int64_t elements) { return elements > 0 && elements % kVectorOfThread == 0; };
  auto fits_registers = [&](std::int64_t sums) { return is_whole(sums) && sums <= 2 * kVectorOfThread; };
  const std::int64_t elements = std::min(rows, columns) * depth / tile.threads();  // that a thread brings
  const bool legal =
      forms.allows("slices", tile.threads() <= kThreadsOfGroup, "side × side × slices are 256 at most") &&
      forms.allows("tile_rows", fits_registers(tile.rows), "four or eight times side are legal") &&
      forms.allows("tile_columns", fits_registers(tile.columns), "four or eight times side are legal") &&
      forms.allows("tile_depth", is_whole(elements), "every thread brings four elements at least") &&
      forms.allows("tile_depth", fits(tile, analysis.target(), row_numbers),
                   "shared memory has no room for it");
  return legal ? std::optional(tile) : std::nullopt;
}

std::optional<SkinnyGroup> choose_skinny_group(const AccessAnalysis& analysis, const ProductSides& sides,
                                               Forms& forms) {
  auto vectors = [&](const Side& side) {
    return comes_in_vectors(analysis, sides.right, side.axes.back()) &&
           te::divides(Dim(kVectorOfThread), analysis.formula().variable(side.axes.back()).extent);
  };
  SkinnyGroup group;
  group.deep = !vectors(sides.columns);
  if (group.deep && !vectors(sides.depth)) return std::nullopt;
  if (forms.chooses()) group = fastest_skinny_group(analysis, sides, group.deep);
  group.across = forms.knob("threads_across", group.across);
  group.slices = forms.knob("slices", group.slices);
  group.prefetch = forms.knob("prefetch", group.prefetch);
  const bool legal = forms.allows("slices", group.across * group.slices <= kThreadsOfGroup,
                                  "threads_across × slices are 256 at most");
  return legal ? std::optional(group) : std::nullopt;
}

ThreadTile choose_thread_tile(const AccessAnalysis& analysis, const ProductSides& sides, Forms& forms) {
  // Vectors where columns are contiguous in the result and come out even.
  const VarId last = sides.columns.axes.back();
  const bool vectors = te::divides(Dim(kVectorOfThread), analysis.formula().variable(last).extent) &&
                       lies_along(analysis, sides.right, last);
  ThreadTile tile{1, 1, vectors ? kVectorOfThread : 1};
  if (forms.chooses()) tile = fastest_thread_tile(analysis, sides, tile.width);
  tile.rows = forms.knob("tile_rows", tile.rows);
  tile.parts = forms.knob("tile_columns", tile.parts * tile.width) / tile.width;
  return tile;
}

}  // namespace xyntra
