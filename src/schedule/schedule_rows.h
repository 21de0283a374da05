// The table of schedules: one row each, with what choosing, layouts, costs and lowering have to know of it. Names and summaries are in
// plan/schedules.def, the forms of its kernels in schedule/forms.def.
#pragma once

#include <functional>
#include <optional>

#include "plan/plan.h"
#include "te/formula.h"

namespace xyntra {

// Weights that are made ready before the run, in place of a constant operand.
struct PrepackedOperand {
  int operand = -1;  // its position among the formula's inputs
  std::function<Result<Tensor>(const Tensor&)> pack;
};

struct ScheduleRow {
  ScheduleKind kind;
  bool is_kernel = true;
  bool on_cpu = false, on_gpu = false;  // targets that have forms for it

  // ---- passes over its formula, before forms are chosen
  bool joins_loops = false;  // its loops become few long ones
  bool shares_rows = false;  // stages go row by row where that is faster
  bool shares_parts = false;  // what several stages compute is computed once
  bool has_main_loop = false;  // a sum of products, with what is made ready for it before
  bool transposes_operands = false;  // for that loop
  bool splits_finish = false;  // functions after a sum run on full vectors, in a loop of their own
  bool has_tiled_product = false;  // of which GPUs make tiles
  std::function<Result<te::Formula>(const te::Formula&, const Schedule&)> stages =
      {};  // its own, of the formula's

  // ---- costs
  bool is_counted = false;  // cycles of its stages are (schedule/cost.h)
  // Hundredths of what is counted, as measured: of arithmetic and of traffic where they are counted apart; of both together in short kernels, and in
  // those that are shared out.
  std::int64_t computing = 0, moving = 100, brief = 100, shared = 100;
  // Of the arithmetic of a single stage, and where any stage has functions; 0: as of others.
  std::int64_t alone = 0, functions = 0;
  // Hundredths of a core's peak that are sustained, where that tells more than what is counted.
  std::int64_t of_peak = 0;
  std::int64_t loop_ns = 0;  // that each of its stages takes to begin
  enum class Waits : std::uint8_t { Nowhere, InRows, InFunctions } waits = Waits::Nowhere;  // GPU threads
  enum class Strides : std::uint8_t { Counted, Packed, OfAttention, OfWinograd } strides = Strides::Counted;

  // ---- layouts
  bool asks_layouts = true;
  std::function<std::optional<PrepackedOperand>(const te::Formula&, const Schedule&)> prepacks = {};
};
const ScheduleRow& row_of(ScheduleKind kind);

bool is_kernel(const Group& group);  // not a view, and not the host's

}  // namespace xyntra
