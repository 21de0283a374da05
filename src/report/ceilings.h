// What this machine reaches at most, measured now: kernels of our own code generator that do nothing but multiply and
// add in registers, or copy arrays too large for the last-level cache. Reports use these figures; plans never do.
#pragma once

#include "runtime/drivers/cuda.h"
#include "runtime/drivers/webgpu.h"
#include "support/result.h"
#include "target/target.h"

namespace xyntra {

struct Ceilings {
  double flops_per_ns = 0;  // f32, a multiply-add being two
  double bytes_per_ns = 0;  // read and written together
};

// With this many threads, 0 being all. Takes a tenth of a second or two.
Result<Ceilings> measure_ceilings(const Target& target, int threads);
// Of a WebGPU device that has timestamps.
Result<Ceilings> measure_ceilings(webgpu::Device& device);
// Of an NVIDIA GPU.
Result<Ceilings> measure_ceilings(const std::shared_ptr<cuda::Device>& device);
// Of where plans for the target run; `device` is an adapter's name where that is a GPU.
Result<Ceilings> measure_ceilings(const Target& target, int threads, const std::string& device);

}  // namespace xyntra
