// Runs the kernels of a program as shaders on a WebGPU device.
//
// The device has a copy of each piece of the host's memory that kernels use. Launches are recorded; they are submitted, in
// one piece, when the host wants to see a result. What the host wrote goes over when a kernel first reads it.
#pragma once

#include "runtime/drivers/webgpu.h"
#include "runtime/kernel_driver.h"
#include "runtime/shader.h"

namespace xyntra {

// Shaders are compiled here. Limit or Unsupported where the adapter cannot take one.
Result<std::shared_ptr<const KernelDriver>> drive_shaders(std::vector<ShaderKernel> kernels,
                                                          std::shared_ptr<webgpu::Device> device,
                                                          bool checked = false);

}  // namespace xyntra
