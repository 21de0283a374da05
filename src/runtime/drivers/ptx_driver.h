// Runs kernels of PTX on an NVIDIA GPU.
#pragma once

#include <memory>
#include <vector>

#include "runtime/drivers/cuda.h"
#include "runtime/kernel_driver.h"
#include "runtime/ptx_kernel.h"

namespace xyntra::cuda {

// Machine code of kernels, in their order; empty where it is to be made.
using KernelCode = std::vector<std::vector<std::byte>>;

// Compiles all of them, on several threads. With `code` what is there of it is loaded instead, and what is not is put there.
Result<std::shared_ptr<const KernelDriver>> drive_ptx(std::vector<PtxKernel> kernels,
                                                      std::shared_ptr<Device> device,
                                                      KernelCode* code = nullptr);

}  // namespace xyntra::cuda
