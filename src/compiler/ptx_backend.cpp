#include "compiler/ptx_backend.h"

#include "support/current_budget.h"

namespace xyntra {
namespace {

constexpr std::int64_t kWarp = 32;  // threads that exchange values

LowerOptions for_warps(LowerOptions options) {
  options.subgroup_lanes = kWarp;
  return options;
}

Result<std::vector<PtxKernel>> emit(const LoweredPlan& lowered) {
  std::vector<PtxKernel> made;
  for (std::size_t i = 0; i < lowered.kernels.size(); ++i) {
    XYNTRA_CHECK_OK(check_limits());
    auto one = emit_ptx(lowered.kernels[i], {});
    if (!one) {
      for (const ProgramStep& step : lowered.program.steps) {
        if (step.kind == ProgramStep::Kind::Launch && step.callee == i)
          return failure(std::move(one).error().at_node(step.origin, step.op));
      }
      return failure(std::move(one).error());
    }
    made.push_back(std::move(*one));
  }
  return made;
}

}  // namespace

Result<std::string> ptx_of(const Plan& plan) {
  XYNTRA_TRY(const LoweredPlan lowered, lower_plan(plan, for_warps({})));
  XYNTRA_TRY(const std::vector<PtxKernel> kernels, emit(lowered));
  std::string text;
  for (std::size_t i = 0; i < kernels.size(); ++i) text += "// k" + std::to_string(i) + "\n" + kernels[i].text + "\n";
  return text;
}

}  // namespace xyntra
