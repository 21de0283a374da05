// What a WebGPU device reaches at most: shaders that do nothing but copy, or multiply and add in registers.
#include <algorithm>

#include "compiler/compiled/ptx_backend.h"
#include "compiler/compiled/wgsl_backend.h"
#include "report/ceilings.h"

namespace xyntra {
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

Result<double> nanoseconds_of(webgpu::Device& device, const webgpu::Shader& shader,
                              const std::vector<webgpu::BufferRange>& ranges, std::int64_t groups) {
  XYNTRA_TRY(const webgpu::Pipeline pipeline, device.pipeline(shader));
  double least = 0;
  for (int round = 0; round < kTimedRounds; ++round) {
    webgpu::Recording recording = webgpu::Recording::timed();
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

Result<Ceilings> measure_ceilings(webgpu::Device& device) {
  const webgpu::Adapter& adapter = device.adapter();
  if (!adapter.timestamps)
    return failure(ErrorClass::Device,
                   "the adapter '" + adapter.name + "' cannot tell how long a dispatch takes");
  const std::int64_t bytes =
      std::min({kCopyBytes, adapter.limits.binding_bytes, adapter.limits.buffer_bytes});
  XYNTRA_TRY(const webgpu::Buffer from, device.allocate(bytes));
  XYNTRA_TRY(const webgpu::Buffer to, device.allocate(bytes));
  webgpu::Shader copy{.wgsl = kCopy, .entry = "copy", .writable = {true, true}};
  XYNTRA_TRY(const double copying, nanoseconds_of(device, copy, {{&from, 0, bytes}, {&to, 0, bytes}},
                                                  (bytes / 16 + kGroupThreads - 1) / kGroupThreads));
  webgpu::Shader multiply{.wgsl = kMultiply, .entry = "multiply", .writable = {true}};
  const std::int64_t groups = adapter.kind == "cpu" ? 64 : kGroups;
  XYNTRA_TRY(const double multiplying, nanoseconds_of(device, multiply, {{&to, 0, 16384}}, groups));
  Ceilings ceilings;
  ceilings.bytes_per_ns = 2 * static_cast<double>(bytes) / std::max(copying, 1.0);
  ceilings.flops_per_ns = static_cast<double>(groups * kGroupThreads * kFmaIterations * kFmaChains * 4 * 2) /
                          std::max(multiplying, 1.0);
  return ceilings;
}

Result<Ceilings> measure_ceilings(const Target& target, int threads, const std::string& device) {
  if (target.kind == TargetKind::Cpu) return measure_ceilings(target, threads);
  if (target.kind == TargetKind::Gpu) {
    XYNTRA_TRY(const std::shared_ptr<cuda::Device> gpu, shared_gpu(device));
    return measure_ceilings(gpu);
  }
  XYNTRA_TRY(const std::shared_ptr<webgpu::Device> opened, shared_device(device));
  return measure_ceilings(*opened);
}

}  // namespace xyntra
