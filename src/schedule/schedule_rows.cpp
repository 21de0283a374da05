#include "schedule/schedule_rows.h"

#include <vector>

#include "schedule/contraction/part_products.h"
#include "schedule/convolution/winograd.h"
#include "support/result.h"

namespace xyntra {
namespace {

using Waits = ScheduleRow::Waits;
using Strides = ScheduleRow::Strides;

std::optional<PrepackedOperand> winograd_operand_of(const te::Formula& formula, const Schedule& schedule) {
  return PrepackedOperand{winograd_operand(formula),
                          [output = knob_of(schedule, "output")](const Tensor& constant) {
                            return winograd_weights(constant, output);
                          }};
}

std::optional<PrepackedOperand> split_operand_of(const te::Formula& formula, const Schedule& /*schedule*/) {
  const auto weights = part_weights(formula);
  if (!weights) return std::nullopt;
  return PrepackedOperand{weights->operand, [depth = weights->depth](const Tensor& constant) {
                            return weights_in_parts(constant, depth);
                          }};
}

std::vector<ScheduleRow> made_rows() {
  using enum ScheduleKind;
  return {
      {.kind = Pointwise,
       .on_cpu = true,
       .on_gpu = true,
       .joins_loops = true,
       .is_counted = true,
       .computing = 69,
       .moving = 70,
       .functions = 100},
      {.kind = Movement, .on_cpu = true, .on_gpu = true, .is_counted = true, .computing = 160},
      {.kind = Row,
       .on_cpu = true,
       .on_gpu = true,
       .shares_rows = true,
       .shares_parts = true,
       .splits_finish = true,
       .is_counted = true,
       .computing = 40,
       .moving = 100,
       .alone = 110,
       .functions = 100,
       .waits = Waits::InRows},
      {.kind = Contraction,
       .on_cpu = true,
       .on_gpu = true,
       .has_main_loop = true,
       .splits_finish = true,
       .has_tiled_product = true,
       .is_counted = true,
       .computing = 115,
       .moving = 130,
       .waits = Waits::InFunctions},
      {.kind = Window,
       .on_cpu = true,
       .on_gpu = true,
       .has_main_loop = true,
       .splits_finish = true,
       .has_tiled_product = true,
       .is_counted = true,
       .computing = 109,
       .moving = 150,
       .waits = Waits::InFunctions},
      {.kind = Tiles, .on_cpu = true, .has_main_loop = true, .strides = Strides::Packed},
      {.kind = Bf16x3,
       .on_cpu = true,
       .stages = [](const te::Formula& formula, const Schedule&) { return parts_formula(formula); },
       .strides = Strides::Packed,
       .prepacks = split_operand_of},
      {.kind = Tf32,
       .on_gpu = true,
       .has_main_loop = true,
       .splits_finish = true,
       .has_tiled_product = true,
       .waits = Waits::InFunctions},
      {.kind = Winograd,
       .on_cpu = true,
       .stages =
           [](const te::Formula& formula, const Schedule& schedule) {
             return winograd_formula(formula, knob_of(schedule, "output"));
           },
       .strides = Strides::OfWinograd,
       .prepacks = winograd_operand_of},
      {.kind = Attention,
       .on_cpu = true,
       .on_gpu = true,
       .shares_parts = true,
       .has_main_loop = true,
       .transposes_operands = true,
       .is_counted = true,
       .computing = 100,
       .of_peak = 35,
       .strides = Strides::OfAttention},
      {.kind = Stages,
       .on_cpu = true,
       .on_gpu = true,
       .is_counted = true,
       .computing = 160,
       .moving = 100,
       .waits = Waits::InRows},
      {.kind = Horizontal, .on_cpu = true, .on_gpu = true, .brief = 110, .shared = 140, .loop_ns = 150},
      {.kind = Plain, .on_cpu = true, .on_gpu = true, .asks_layouts = false},
      {.kind = View, .is_kernel = false, .on_cpu = true, .on_gpu = true, .strides = Strides::Packed},
      {.kind = Host, .is_kernel = false},
  };
}

}  // namespace

const ScheduleRow& row_of(ScheduleKind kind) {
  static const std::vector<ScheduleRow> rows = made_rows();
  const ScheduleRow& row = rows.at(static_cast<std::size_t>(kind));
  require(row.kind == kind, "rows of schedules are in the order of plan/schedules.def");
  return row;
}

bool is_kernel(const Group& group) {
  return group.hero != Hero::Host && row_of(group.schedule.kind).is_kernel;
}

}  // namespace xyntra
