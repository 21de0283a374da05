// What an adapter's arithmetic does where WebGPU leaves it open: found out by a small shader, once for each adapter.
#pragma once

#include <span>

#include "codegen/wgsl/emit.h"
#include "runtime/drivers/webgpu.h"

namespace xyntra {

// What these kernels may use of a device. An adapter that has f16 and computes with it otherwise than te does counts as one that
// cannot: its values then go through f32, and are rounded by integer arithmetic. Nothing is asked that no kernel needs.
WgslFeatures features_for(webgpu::Device& device, std::span<const kir::Kernel> kernels);

// Neighbouring threads that exchange values on a device (subgroups): a power of two, 0 where it has none, or where threads do not
// lie in them in order.
std::int64_t subgroup_lanes_of(webgpu::Device& device);

}  // namespace xyntra
