// wgsl: WebGPU shaders, through wgpu-native; browsers run the same ones.
#include "backends/by_kernels.h"
#include "backends/rows.h"
#include "compiler/compiled/wgsl_backend.h"

namespace xyntra {
namespace {

Result<CompiledModel> compile_shaders(const Plan& plan, const RunSettings& settings) {
  return compile_for_wgsl(plan, lower_options(settings), settings.shaders);
}

// With everything an adapter may have, unless they are to run anywhere.
Result<std::string> shaders(const Plan& plan, const Target& /*target*/, const ShaderOptions& options) {
  const WgslFeatures all{
      .int64 = true, .float64 = true, .float16 = true, .float16_rounds = true, .float16_adds = true};
  return shaders_of(plan, options.portable ? WgslFeatures{} : all);
}

Readiness adapter_state() {
  std::string why = why_no_adapter(webgpu::adapters());
  return why.empty() ? Readiness{} : Readiness{"no adapter", std::move(why)};
}

}  // namespace

Backend wgsl_backend() {
  Backend row{"wgsl", "webgpu", "WebGPU shaders"};
  row.takes_donations = true;
  row.runs_shaders = true;
  row.has_devices = true;
  row.package = Package::WebFolder;
  row.target_kind = TargetKind::WebGpu;
  row.target = [] { return find_target("webgpu"); };
  row.run_plan = [](const PlannedModel& model, const RunSettings& settings) -> MadeRunner {
    XYNTRA_TRY(CompiledModel compiled, compile_shaders(model.plan, settings));
    return run_by_kernels(model.graph, settings, std::move(compiled));
  };
  row.compile = compile_shaders;
  row.code = shaders;
  row.missing = [](const Plan& plan, const RunSettings& settings) {
    return wgsl_lacks(plan, lower_options(settings), settings.shaders);
  };
  row.readiness = adapter_state;
  row.ceilings = [](const std::string& which) -> Result<Ceilings> {
    XYNTRA_TRY(const std::shared_ptr<webgpu::Device> device, shared_device(which));
    return measure_ceilings(*device);
  };
  return row;
}

}  // namespace xyntra
