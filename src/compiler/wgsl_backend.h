// Plans as shaders, on a WebGPU device.
#pragma once

#include <memory>
#include <string>

#include "codegen/wgsl/emit.h"
#include "compiler/cpu_backend.h"
#include "runtime/drivers/webgpu.h"

namespace xyntra {

// A device that models share: opening one takes longer than many a model's run. A lost one is replaced.
Result<std::shared_ptr<webgpu::Device>> shared_device(const std::string& which);

// `device`: as for webgpu::Device::open. Device errors where there is none.
Result<CpuModel> compile_for_wgsl(const Plan& plan, const LowerOptions& options, const std::string& device);

// The shaders of a plan, one after another, for people.
Result<std::string> shaders_of(const Plan& plan, const WgslFeatures& features);

}  // namespace xyntra
