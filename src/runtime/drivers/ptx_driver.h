// Runs kernels of PTX on an NVIDIA GPU.
#pragma once

#include <memory>
#include <vector>

#include "runtime/drivers/cuda.h"
#include "runtime/kernel_driver.h"
#include "runtime/ptx_kernel.h"

namespace xyntra::cuda {

// Compiles all of them, on several threads.
Result<std::shared_ptr<const KernelDriver>> drive_ptx(std::vector<PtxKernel> kernels,
                                                      std::shared_ptr<Device> device);

}  // namespace xyntra::cuda
