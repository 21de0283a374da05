// Plans as shaders, on a WebGPU device.
#pragma once

#include <memory>
#include <string>

#include "codegen/wgsl/emit.h"
#include "compiler/cpu_backend.h"

namespace xyntra {

struct WgslModel {
  std::shared_ptr<const LaunchProgram> program;
  std::shared_ptr<const HostCalls> host;
  std::shared_ptr<const KernelDriver> driver;
};

// `device`: as for webgpu::Device::open. Device errors where there is none.
Result<WgslModel> compile_for_wgsl(const Plan& plan, const LowerOptions& options, const std::string& device);

// The shaders of a plan, one after another, for people.
Result<std::string> shaders_of(const Plan& plan, const WgslFeatures& features);

}  // namespace xyntra
