#include "schedule/contraction/warp_units.h"

#include <algorithm>

#include "te/index/merge.h"

namespace xyntra {

bool multiplies_bytes(const Target& target) {
  return target.warp_threads > 0 &&
         target.matrix_unit(DType::I8, kFragmentRows, kFragmentColumns, fragment_depth(1)) != nullptr;
}

std::optional<ProductSides> sides_for_units(const AccessAnalysis& analysis, const te::Stage& stage) {
  auto sides = product_sides(analysis, stage);
  return sides ? std::move(sides) : product_sides(analysis, stage, DType::I32);
}

bool has_warp_unit(const AccessAnalysis& analysis, const ProductSides& sides, bool tf32) {
  const DType dtype = narrow_factor(analysis, sides.left).dtype();
  if (sides.left.dtype() == DType::I32)
    return is_byte(dtype) && is_byte(narrow_factor(analysis, sides.right).dtype()) &&
           multiplies_bytes(analysis.target());
  const bool has_unit = dtype == DType::BF16 || dtype == DType::F16 || (tf32 && dtype == DType::F32);
  if (!has_unit || dtype != narrow_factor(analysis, sides.right).dtype()) return false;
  return analysis.target().matrix_unit(dtype, kFragmentRows, kFragmentColumns,
                                       fragment_depth(bits_of(dtype) / 8)) != nullptr;
}

bool has_constant_digits(const AccessAnalysis& analysis, const Side& side) {
  auto is_constant = [&](te::VarId axis) { return analysis.formula().variable(axis).extent.is_constant(); };
  return side.axes.empty() || std::all_of(side.axes.begin() + 1, side.axes.end(), is_constant);
}

bool is_worth_tiles(const AccessAnalysis& analysis, const ProductSides& sides) {
  constexpr std::int64_t kFewest = 1024, kFewestOfLong = 512, kLong = 256, kShortest = 8, kUnknown = 128;
  auto likely = [&](const Dim& extent) {
    return extent.is_constant() ? extent.constant() : std::max(kUnknown, analysis.size(extent));
  };
  const std::int64_t depth = likely(sides.depth.extent);
  return (!sides.rows.axes.empty() || sides.batch.empty()) && !sides.columns.axes.empty() &&
         !sides.depth.axes.empty() && has_constant_digits(analysis, sides.depth) && depth >= kShortest &&
         likely(sides.rows.extent) * likely(sides.columns.extent) >=
             (depth >= kLong ? kFewestOfLong : kFewest);
}

std::optional<Choice> as_tf32(const te::Formula& formula, const Choice& choice, const Target& target,
                              const ChooseOptions& options) {
  constexpr std::int64_t kOfHalves = 2;  // times as long as factors of 16 bits take
  const Schedule& schedule = choice.schedule;
  if (target.warp_threads == 0 || schedule.kind != ScheduleKind::Contraction ||
      schedule.exactness != Exactness::Reassociating)
    return std::nullopt;
  te::Formula merged = formula;
  te::merge_axes(merged);
  const AccessAnalysis analysis(merged, target, options.nominal);
  const bool multiplies = std::ranges::any_of(merged.stages, [&](const te::Stage& stage) {
    const auto sides = product_sides(analysis, stage);
    return sides && narrow_factor(analysis, sides->left).dtype() == DType::F32 &&
           has_warp_unit(analysis, *sides, true) && is_worth_tiles(analysis, *sides);
  });
  if (!multiplies) return std::nullopt;
  Choice made = choice;
  made.schedule.kind = ScheduleKind::Tf32;
  made.schedule.exactness = Exactness::PrecisionChanging;
  const std::int64_t flops = analysis.size(choice.flops);
  const std::int64_t scalar = target.estimate_ns(0, flops, DType::F32, 0);
  const std::int64_t by_units =
      kOfHalves * target.estimate_ns(0, flops, DType::BF16, 0, ArithmeticUnit::Matrix);
  made.predicted_ns = std::max(by_units, choice.predicted_ns - std::max<std::int64_t>(0, scalar - by_units));
  return made;
}

}  // namespace xyntra
