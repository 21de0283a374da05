// From kernels to WGSL, the shading language of WebGPU.
//
//   XYNTRA_TRY(ShaderKernel shader, emit_wgsl(kernel, {}));
//
// A phase is an entry point. Where a phase has no threads of its own, each invocation does one work item. The text is the
// same for the same kernel on any machine, and holds nothing of the model's own strings.
//
// Bindings are those of runtime/shader.h. Elements of 8 and 16 bits lie packed in words, but for f16 where the adapter has it.
#pragma once

#include "kir/kernel.h"
#include "runtime/shader.h"

namespace xyntra {

// What an adapter offers beyond what every browser has.
struct WgslFeatures {
  bool int64 = false;
  bool float64 = false;
  bool float16 = false;  // f16 as a type of values and of elements
  // What the language leaves open, and an adapter is asked once (probe.h).
  bool float16_rounds = false;  // f32 to f16: to the nearest, ties to even, denormals and infinities included
  bool float16_adds = false;  // sums, differences and comparisons of two f16, likewise
  // Limits: what every browser has, unless an adapter has more.
  std::int64_t binding_bytes = std::int64_t{128} << 20;
  std::int64_t storage_buffers = 8;
  int subgroup_lanes = 0;  // neighbouring threads that exchange values, a power of two; 0: none
  // Shaders say that they do: browsers ask for it, wgpu-native need not take it.
  bool subgroup_directive = false;
};

// The kernel is verified first: a shader has no access outside its buffers and no loop without end, so that drivers may run
// it without checks of their own. Unsupported, with the reason, where the features do not suffice for what the kernel computes with.
Result<ShaderKernel> emit_wgsl(const kir::Kernel& kernel, const WgslFeatures& features);

}  // namespace xyntra
