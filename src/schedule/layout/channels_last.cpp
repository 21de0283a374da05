#include "schedule/layout/channels_last.h"

#include <algorithm>
#include <array>

#include "kir/intrinsics.h"
#include "schedule/contraction/product_sides.h"
#include "schedule/contraction/warp_units.h"
#include "te/index/merge.h"

namespace xyntra {

using te::Expr;
using te::Stage;
using te::VarId;

namespace {

constexpr std::array kUnitDTypes{DType::F16, DType::BF16};

bool is_for_units(const Target& target, DType dtype) {
  if (is_byte(dtype)) return multiplies_bytes(target);
  return std::ranges::find(kUnitDTypes, dtype) != kUnitDTypes.end() &&
         target.matrix_unit(dtype, kFragmentRows, kFragmentColumns, kFragmentDepth) != nullptr;
}

// Whether loops of the result and of the reduction meet in an index.
bool has_windows(const Stage& stage, const Expr& factor) {
  return te::any_load(factor, [&](const te::ExprNode& load) {
    return std::ranges::any_of(te::index_of(load), [&](const Expr& index) {
      const std::set<VarId> used = te::variables_of(index);
      auto meets = [&](VarId loop) { return used.contains(loop); };
      return std::ranges::any_of(stage.axes, meets) && std::ranges::any_of(stage.reduction, meets);
    });
  });
}

// Times as long as tiles take whose operands come in chunks: seen were 20 to 130 us instead of 4 to 6, over convolutions of drawn models.
std::int64_t slowness(const AccessAnalysis& analysis, const Stage& stage, const ProductSides& sides) {
  constexpr std::int64_t kThroughRegisters = 6, kWindows = 12;
  auto of = [&](const Expr& factor, const Side& side) -> std::int64_t {
    const Expr narrow = narrow_factor(analysis, factor);
    const bool chunks = (!side.axes.empty() && comes_in_chunks(analysis, narrow, side.axes.back())) ||
                        comes_in_chunks(analysis, narrow, sides.depth.axes.back());
    if (chunks) return 1;
    return has_windows(stage, narrow) ? kWindows : kThroughRegisters;
  };
  return std::max(of(sides.left, sides.rows), of(sides.right, sides.columns));
}

}  // namespace

bool has_units_of_warps(const Target& target) {
  return target.warp_threads > 0 &&
         std::ranges::any_of(kUnitDTypes, [&](DType dtype) { return is_for_units(target, dtype); });
}

std::optional<Layout> channels_last(const te::BufferInfo& buffer) {
  constexpr std::size_t kChannels = 1;
  if (buffer.shape.size() < 3 || (!is_float(buffer.dtype) && !is_byte(buffer.dtype))) return {};
  const Dim& channels = buffer.shape[kChannels];
  const std::int64_t chunk = is_byte(buffer.dtype) ? kir::kChunkBytes : kir::kChunkElements;
  if (!channels.is_constant() || channels.constant() % chunk != 0) return {};
  Layout layout{{0, 1, 0}};
  for (std::size_t d = 2; d < buffer.shape.size(); ++d) layout.push_back({d, 1, 0});
  layout.push_back({kChannels, 1, 0});
  return layout;
}

std::optional<std::int64_t> warp_products_ns(const te::Formula& laid_out, const Target& target,
                                             const SymbolBindings& nominal) {
  te::Formula merged = laid_out;
  te::merge_axes(merged);
  const AccessAnalysis analysis(merged, target, nominal);
  std::optional<std::int64_t> total;
  for (const Stage& stage : merged.stages) {
    auto sides = sides_for_units(analysis, stage);
    if (!sides || sides->depth.axes.empty()) continue;
    const DType dtype = narrow_factor(analysis, sides->left).dtype();
    if (!is_for_units(target, dtype) || !has_warp_unit(analysis, *sides, false)) continue;
    order_depth(analysis, *sides);
    std::int64_t work = 2;
    for (const auto* loops : {&stage.axes, &stage.reduction}) {
      for (VarId loop : *loops) {
        const std::int64_t iterations =
            std::max<std::int64_t>(1, analysis.size(merged.variable(loop).extent));
        work = work > INT64_MAX / iterations ? INT64_MAX : work * iterations;
      }
    }
    constexpr std::int64_t kLeast = 3000;  // ns of a small one, whose tiles wait for memory
    const std::int64_t ns = kLeast + target.estimate_ns(0, work, dtype, 0, ArithmeticUnit::Matrix);
    const std::int64_t slow = slowness(analysis, stage, *sides);
    total = total.value_or(0) + std::min(ns, INT64_MAX / 64) * slow;
  }
  return total;
}

}  // namespace xyntra
