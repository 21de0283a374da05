// ptx: NVIDIA GPUs from Ampere on, through the CUDA driver.
#include <algorithm>

#include "backends/by_kernels.h"
#include "backends/rows.h"
#include "compiler/compiled/ptx_backend.h"
#include "package/cached_model.h"
#include "support/limits/background.h"

namespace xyntra {
namespace {

Result<CompiledModel> compile_ptx(const Plan& plan, const RunSettings& settings) {
  return compile_for_ptx(plan, lower_options(settings), settings.shaders.device);
}

MadeRunner run_ptx(const PlannedModel& model, const RunSettings& settings) {
  if (model.cached == nullptr) {
    XYNTRA_TRY(CompiledModel compiled, compile_ptx(model.plan, settings));
    return run_by_kernels(model.graph, settings, std::move(compiled));
  }
  std::optional<PtxCode> code;
  XYNTRA_TRY(CompiledModel compiled,
             compile_for_ptx(model.plan, lower_options(settings), settings.shaders.device, code));
  if (const auto* host = dynamic_cast<const NodesOnHost*>(compiled.host.get()); code && host != nullptr) {
    LaunchProgram program = *compiled.program;
    program.kernels.resize(code->kernels.size());  // as its reader counts them
    model.cached->put(model.plan, program, *host, to_bytes(*code));
  }
  return run_by_kernels(model.graph, settings, std::move(compiled));
}

std::unique_ptr<ModelRunner> run_cached_ptx(const Graph& graph, CachedModel& cached,
                                            const RunSettings& settings) {
  auto device = shared_gpu(settings.shaders.device);
  if (!device) return nullptr;  // said when the plan is compiled
  auto found = cached.find(identity_of(**device), settings.running.threads);
  if (!found) return nullptr;
  auto code = ptx_code_from(found->code);
  if (!code) return nullptr;
  found->program.kernels.clear();  // they are the driver's
  auto compiled = load_for_ptx(std::move(found->program), found->host, std::move(*code), std::move(*device));
  return compiled ? run_by_kernels(graph, settings, std::move(*compiled)) : nullptr;
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
  row.keeps_objects = true;
  row.run_plan = run_ptx;
  row.run_cached = run_cached_ptx;
  row.begin = [](const RunSettings& settings) {
    return in_background([which = settings.shaders.device] { (void)shared_gpu(which); });
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
