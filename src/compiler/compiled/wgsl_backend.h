// Plans as shaders, on a WebGPU device.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/wgsl/emit.h"
#include "compiler/compiled/compiled_model.h"
#include "compiler/lower_plan.h"
#include "runtime/drivers/webgpu.h"

namespace xyntra {

// A device that models share: opening one takes longer than many a model's run. A lost one is replaced.
Result<std::shared_ptr<webgpu::Device>> shared_device(const std::string& which);

// Device errors where there is no such device.
Result<CompiledModel> compile_for_wgsl(const Plan& plan, const LowerOptions& options,
                                       const ShaderOptions& shaders);

// Everything about the plan's kernels that the adapter cannot do, with the names of the nodes it is needed for: numbers it
// does not have, more buffers or larger ones than it binds. Sizes that are not known are taken to be those of the plan's
// costs. Portable shaders are held against what every browser has, which takes no device.
Result<std::map<std::string, std::vector<std::string>>> wgsl_lacks(const Plan& plan,
                                                                   const LowerOptions& options,
                                                                   const ShaderOptions& shaders);

// Why there is no adapter; empty when there is one.
std::string why_no_adapter(const Result<std::vector<webgpu::Adapter>>& found);

// The shaders of a plan, one after another, for people.
Result<std::string> shaders_of(const Plan& plan, const WgslFeatures& features);

}  // namespace xyntra
