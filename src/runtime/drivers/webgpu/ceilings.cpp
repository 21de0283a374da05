// What a WebGPU device reaches at most: shaders that do nothing but copy, or multiply and add in registers.
#include "runtime/drivers/webgpu.h"

#include <algorithm>

namespace xyntra::webgpu {
namespace {

constexpr std::int64_t kCopyBytes = 256 << 20;
constexpr std::int64_t kGroupThreads = 256, kFmaIterations = 512, kFmaChains = 8, kGroups = 4096;
constexpr int kTimedRounds = 4;

constexpr const char* kCopy = R"(
@group(0) @binding(0) var<storage, read_write> from_here: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> to_there: array<vec4<f32>>;
@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.y * groups.x * 256u + id.x;
  if (i < arrayLength(&from_here)) { to_there[i] = from_here[i]; }
}
)";

constexpr const char* kMultiply = R"(
@group(0) @binding(0) var<storage, read_write> seen: array<vec4<f32>>;
@compute @workgroup_size(256)
fn multiply(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = vec4<f32>(f32(id.x) * 0.000001);
  var a = x; var b = x + 1.0; var c = x + 2.0; var d = x + 3.0;
  var e = x + 4.0; var f = x + 5.0; var g = x + 6.0; var h = x + 7.0;
  for (var i = 0; i < 512; i++) {
    a = fma(a, x, x); b = fma(b, x, x); c = fma(c, x, x); d = fma(d, x, x);
    e = fma(e, x, x); f = fma(f, x, x); g = fma(g, x, x); h = fma(h, x, x);
  }
  seen[id.x & 1023u] = a + b + c + d + e + f + g + h;
}
)";

Result<double> nanoseconds_of_shader(Device& device, const Shader& shader,
                                     const std::vector<BufferRange>& ranges, std::int64_t groups) {
  XYNTRA_TRY(const Pipeline pipeline, device.pipeline(shader));
  double least = 0;
  for (int round = 0; round < kTimedRounds; ++round) {
    Recording recording = Recording::timed();
    const std::int64_t across = std::min<std::int64_t>(groups, 32768);
    XYNTRA_CHECK_OK(recording.dispatch(pipeline, ranges, {}, across, (groups + across - 1) / across, 1));
    XYNTRA_CHECK_OK(device.submit(recording));
    XYNTRA_CHECK_OK(device.wait());
    XYNTRA_TRY(const std::vector<double> spent, device.nanoseconds(recording));
    if (round == 0 || spent.at(0) < least) least = spent.at(0);
  }
  return least;
}

}  // namespace

Result<Ceilings> measure_ceilings(Device& device) {
  const Adapter& adapter = device.adapter();
  if (!adapter.timestamps)
    return failure(ErrorClass::Device,
                   "the adapter '" + adapter.name + "' cannot tell how long a dispatch takes");
  const std::int64_t bytes =
      std::min({kCopyBytes, adapter.limits.binding_bytes, adapter.limits.buffer_bytes});
  XYNTRA_TRY(const Buffer from, device.allocate(bytes));
  XYNTRA_TRY(const Buffer to, device.allocate(bytes));
  Shader copy{.wgsl = kCopy, .entry = "copy", .writable = {true, true}};
  XYNTRA_TRY(const double copying, nanoseconds_of_shader(device, copy, {{&from, 0, bytes}, {&to, 0, bytes}},
                                                         (bytes / 16 + kGroupThreads - 1) / kGroupThreads));
  Shader multiply{.wgsl = kMultiply, .entry = "multiply", .writable = {true}};
  const std::int64_t groups = adapter.kind == "cpu" ? 64 : kGroups;
  XYNTRA_TRY(const double multiplying, nanoseconds_of_shader(device, multiply, {{&to, 0, 16384}}, groups));
  Ceilings ceilings;
  ceilings.bytes_per_ns = 2 * static_cast<double>(bytes) / std::max(copying, 1.0);
  ceilings.flops_per_ns = static_cast<double>(groups * kGroupThreads * kFmaIterations * kFmaChains * 4 * 2) /
                          std::max(multiplying, 1.0);
  return ceilings;
}

}  // namespace xyntra::webgpu
