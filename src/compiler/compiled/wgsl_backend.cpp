#include "compiler/compiled/wgsl_backend.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "codegen/wgsl/adapter/probe.h"
#include "compiler/lower_plan.h"
#include "runtime/drivers/shader_driver.h"
#include "support/limits/current_budget.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

// What shaders may count on: the limits and features of a device, or those of every browser.
struct Ground {
  std::string name;
  WgslFeatures features;
  webgpu::Limits limits;
};

Ground ground_of(webgpu::Device& device, std::span<const kir::Kernel> kernels) {
  return {device.adapter().name, features_for(device, kernels), device.adapter().limits};
}

// The limits that WebGPU promises, as far as kernels meet them.
Ground every_browser() {
  webgpu::Limits limits;
  limits.binding_bytes = WgslFeatures{}.binding_bytes;
  limits.buffer_bytes = std::int64_t{256} << 20;
  limits.storage_buffers = static_cast<int>(WgslFeatures{}.storage_buffers);
  return {"every browser", {}, limits};
}

// Storage buffers that a shader binds, in any of its phases.
std::size_t buffers_of(const ShaderKernel& shader) {
  std::size_t most = 0;
  for (const ShaderPhase& phase : shader.phases) most = std::max(most, phase.bindings.size());
  return most;
}

// Something that a kernel needs and does not get, and the tensors that it is about: none where it is about the kernel.
struct Lack {
  std::string what;
  std::function<bool(const Type&)> is_about;
};

std::vector<Lack> lacks_of(const kir::Kernel& kernel, const Ground& ground, const SymbolBindings& sizes) {
  std::vector<Lack> found;
  const std::string most = ", " + ground.name + " has at most ";
  const auto shader = emit_wgsl(kernel, ground.features);
  if (!shader) {
    const bool doubles = !(ground.features.float64 && ground.features.int64);
    found.push_back({shader.error().message,
                     [doubles](const Type& type) { return doubles && type.dtype == DType::F64; }});
  }
  const std::int64_t most_iterations = ground.limits.loop_iterations;
  for (const ShaderPhase& phase : shader ? shader->phases : std::vector<ShaderPhase>{}) {
    const auto iterations = phase.iterations.evaluate(sizes);
    if (iterations && most_iterations > 0 && *iterations > most_iterations)
      found.push_back({"a shader whose loops have " + std::to_string(*iterations) + " iterations" + most +
                           std::to_string(most_iterations),
                       [](const Type&) { return false; }});
  }
  auto bytes_of = [&sizes](DType dtype, const Shape& shape) {  // 0 where it is not known: said when it runs
    auto elements = product(shape).evaluate(sizes);
    return elements ? *elements / 8 * bits_of(dtype) : 0;
  };
  const auto buffers = shader ? static_cast<std::int64_t>(buffers_of(*shader)) : 0;
  if (buffers > ground.limits.storage_buffers)
    found.push_back({std::to_string(buffers) + " buffers in one shader" + most +
                         std::to_string(ground.limits.storage_buffers),
                     [](const Type&) { return false; }});
  auto too_large = [&](std::int64_t largest, std::int64_t limit, const char* where) {
    if (largest <= limit) return;
    found.push_back({"a tensor of " + human_bytes(largest) + where + most + human_bytes(limit),
                     [bytes_of, limit](const Type& type) {
                       return type.shape && bytes_of(type.dtype, *type.shape) > limit;
                     }});
  };
  std::int64_t largest = 0, bound = 0;  // of a tensor; of one that is not cut into several bindings
  std::vector<std::int64_t> arguments;
  for (const kir::Buffer& buffer : kernel.buffers) {
    const std::int64_t bytes = bytes_of(buffer.dtype, buffer.shape);
    if (buffer.scope == kir::Scope::Global) arguments.push_back(bytes);
    if (buffer.scope == kir::Scope::Global && !shader) largest = std::max(largest, bytes);
    if (buffer.scope == kir::Scope::Workspace) bound = std::max(bound, bytes);
  }
  for (const ShaderBinding& binding : shader ? shader->bindings : std::vector<ShaderBinding>{}) {
    for (const ShaderBinding::Part& part : binding.parts) {
      largest = std::max(largest, arguments[part.argument]);
      bound = std::max(bound, part.bytes < 0 ? arguments[part.argument] : part.bytes);
    }
  }
  too_large(bound, ground.limits.binding_bytes, " bound to a shader");
  if (bound <= ground.limits.binding_bytes) too_large(largest, ground.limits.buffer_bytes, " in one buffer");
  return found;
}

// The nodes of a group that a lack is told of: those with such tensors, else the last.
std::vector<std::string> nodes_of(const Plan& plan, const Group& group, const Lack& lack) {
  std::vector<std::string> found;
  auto is_about = [&](ValueId id) {
    return id.valid() && plan.graph.value(id).type.is_tensor() && lack.is_about(plan.graph.value(id).type);
  };
  for (NodeId id : group.nodes) {
    const Node& node = plan.graph.node(id);
    if (std::ranges::any_of(node.inputs, is_about) || std::ranges::any_of(node.outputs, is_about))
      found.push_back(node.origin);
  }
  if (found.empty()) found = {plan.graph.node(group.nodes.back()).origin};
  return found;
}

Result<ShaderKernel> emit_within(const kir::Kernel& kernel, const WgslFeatures& features) {
  XYNTRA_TRY(ShaderKernel shader, emit_wgsl(kernel, features));
  if (std::cmp_greater(buffers_of(shader), features.storage_buffers)) {
    return limit_error("a shader would bind " + std::to_string(buffers_of(shader)) +
                       " buffers, where one binds at most " + std::to_string(features.storage_buffers));
  }
  return shader;
}

Result<std::vector<ShaderKernel>> emit(const LoweredPlan& lowered, const WgslFeatures& features) {
  std::vector<ShaderKernel> shaders;
  for (std::size_t i = 0; i < lowered.kernels.size(); ++i) {
    XYNTRA_CHECK_OK(check_limits());
    auto shader = emit_within(lowered.kernels[i], features);
    if (!shader) {
      for (const ProgramStep& step : lowered.program.steps) {
        if (step.kind == ProgramStep::Kind::Launch && step.callee == i)
          return failure(std::move(shader).error().at_node(step.origin, step.op));
      }
      return failure(std::move(shader).error());
    }
    shaders.push_back(std::move(*shader));
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

Result<CompiledModel> compile_for_wgsl(const Plan& plan, const LowerOptions& options,
                                       const ShaderOptions& shading) {
  XYNTRA_TRY(std::shared_ptr<webgpu::Device> device, shared_device(shading.device));
  LowerOptions lowering = options;
  if (!shading.portable) lowering.subgroup_lanes = subgroup_lanes_of(*device);
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, lowering));
  WgslFeatures features = shading.portable ? WgslFeatures{} : features_for(*device, lowered.kernels);
  if (shading.binding_bytes > 0) features.binding_bytes = shading.binding_bytes;
  if (shading.storage_buffers > 0) features.storage_buffers = shading.storage_buffers;
  XYNTRA_TRY(std::vector<ShaderKernel> shaders,
             within(options.budget.get(), "writing shaders", [&] { return emit(lowered, features); }));
  const BudgetScope scope(options.budget.get(), "making shaders");
  CompiledModel model;
  model.program = std::make_shared<const LaunchProgram>(std::move(lowered.program));
  model.host = lowered.host;
  XYNTRA_TRY(model.driver, drive_shaders(std::move(shaders), std::move(device), shading.checked));
  return model;
}

Result<std::map<std::string, std::vector<std::string>>> wgsl_lacks(const Plan& plan,
                                                                   const LowerOptions& options,
                                                                   const ShaderOptions& shading) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, options));
  Ground ground = every_browser();
  if (!shading.portable) {
    XYNTRA_TRY(std::shared_ptr<webgpu::Device> device, shared_device(shading.device));
    ground = ground_of(*device, lowered.kernels);
  }
  std::vector<std::vector<Lack>> by_kernel;
  for (const kir::Kernel& kernel : lowered.kernels) {
    XYNTRA_CHECK_OK(check_limits());
    by_kernel.push_back(lacks_of(kernel, ground, plan.nominal));
  }
  std::map<std::string, std::vector<std::string>> lacking;
  for (std::size_t i = 0; i < lowered.program.steps.size(); ++i) {  // one for each group
    const ProgramStep& step = lowered.program.steps[i];
    if (step.kind != ProgramStep::Kind::Launch) continue;
    for (const Lack& lack : by_kernel.at(step.callee)) {
      for (const std::string& node : nodes_of(plan, plan.groups[i], lack)) lacking[lack.what].push_back(node);
    }
  }
  return lacking;
}

Result<std::string> shaders_of(const Plan& plan, const WgslFeatures& features) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {}));
  WgslFeatures any = features;
  any.binding_bytes = any.storage_buffers = INT64_MAX;  // as kernels are written
  XYNTRA_TRY(std::vector<ShaderKernel> shaders, emit(lowered, any));
  std::string text;
  for (std::size_t i = 0; i < shaders.size(); ++i)
    text += "// k" + std::to_string(i) + "\n" + shaders[i].text + "\n";
  return text;
}

std::string why_no_adapter(const Result<std::vector<webgpu::Adapter>>& found) {
  if (!found) return found.error().with_its_hint();
  if (!found->empty()) return "";
  return "no WebGPU adapter: this machine has no Vulkan driver (type apt-get install mesa-vulkan-drivers for "
         "one that runs on the CPU)";
}

}  // namespace xyntra
