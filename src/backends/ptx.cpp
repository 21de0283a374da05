// ptx: NVIDIA GPUs from Ampere on, through the CUDA driver.
#include <algorithm>

#include "backends/by_kernels.h"
#include "backends/rows.h"
#include "compiler/compiled/ptx_backend.h"

namespace xyntra {
namespace {

Result<CompiledModel> compile_ptx(const Plan& plan, const RunSettings& settings) {
  return compile_for_ptx(plan, lower_options(settings), settings.shaders.device);
}

// The table of the first GPU that kernels can run on; where there is none, plans are made for the one with all units.
Result<const Target*> target_of_chip() {
  const char* name = "h100";
  if (const auto chips = cuda::chips()) {
    const auto first = std::ranges::find_if(*chips, &cuda::Chip::is_supported);
    if (first != chips->end() && !first->has_warpgroup_units()) name = "ampere";
  }
  return find_target(name);
}

}  // namespace

Backend ptx_backend() {
  Backend row{"ptx", "cuda", "NVIDIA GPUs"};
  row.takes_donations = true;
  row.has_devices = true;
  row.target_kind = TargetKind::Gpu;
  row.target = target_of_chip;
  row.run_plan = [](const PlannedModel& model, const RunSettings& settings) -> MadeRunner {
    XYNTRA_TRY(CompiledModel compiled, compile_ptx(model.plan, settings));
    return run_by_kernels(model, settings, std::move(compiled));
  };
  row.compile = compile_ptx;
  row.code = [](const Plan& plan, const Target& /*target*/, const ShaderOptions& /*options*/) {
    return ptx_of(plan);
  };
  row.missing = [](const Plan& plan, const RunSettings& settings) {
    return ptx_lacks(plan, lower_options(settings));
  };
  row.readiness = [] {
    std::string why = cuda::why_no_chip();
    return why.empty() ? Readiness{} : Readiness{"no GPU", std::move(why)};
  };
  row.ceilings = [](const std::string& which) -> Result<Ceilings> {
    XYNTRA_TRY(const std::shared_ptr<cuda::Device> device, shared_gpu(which));
    return measure_ceilings(device);
  };
  return row;
}

}  // namespace xyntra
