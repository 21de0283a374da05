#include "compiler/wgsl_backend.h"

#include <map>
#include <mutex>

#include "compiler/lower_plan.h"
#include "runtime/drivers/shader_driver.h"

namespace xyntra {
namespace {

Result<std::vector<ShaderKernel>> emit(const std::vector<kir::Kernel>& kernels,
                                       const WgslFeatures& features) {
  std::vector<ShaderKernel> shaders;
  for (const kir::Kernel& kernel : kernels) {
    XYNTRA_TRY(ShaderKernel shader, emit_wgsl(kernel, features));
    shaders.push_back(std::move(shader));
  }
  return shaders;
}

}  // namespace

Result<std::shared_ptr<webgpu::Device>> shared_device(const std::string& which) {
  static std::mutex mutex;
  // Never let go of: drivers end their own threads at exit, and a device that is closed after that is a crash.
  static auto& open = *new std::map<std::string, std::shared_ptr<webgpu::Device>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<webgpu::Device>& device = open[which];
  if (!device || device->lost()) {
    XYNTRA_TRY(device, webgpu::Device::open(which));
  }
  return device;
}

Result<CpuModel> compile_for_wgsl(const Plan& plan, const LowerOptions& options, const std::string& which) {
  XYNTRA_TRY(std::shared_ptr<webgpu::Device> device, shared_device(which));
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, options));
  const webgpu::Adapter& adapter = device->adapter();
  XYNTRA_TRY(std::vector<ShaderKernel> shaders, emit(lowered.kernels, {adapter.int64, adapter.f64}));
  CpuModel model;
  model.program = std::make_shared<const LaunchProgram>(std::move(lowered.program));
  model.host = lowered.host;
  XYNTRA_TRY(model.driver, drive_shaders(std::move(shaders), std::move(device)));
  return model;
}

Result<std::string> shaders_of(const Plan& plan, const WgslFeatures& features) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {}));
  XYNTRA_TRY(std::vector<ShaderKernel> shaders, emit(lowered.kernels, features));
  std::string text;
  for (std::size_t i = 0; i < shaders.size(); ++i)
    text += "// k" + std::to_string(i) + "\n" + shaders[i].text + "\n";
  return text;
}

}  // namespace xyntra
