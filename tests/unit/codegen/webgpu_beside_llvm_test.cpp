// A software Vulkan driver brings an LLVM of its own, of another version than ours: both make code in one process.
#include <cstdlib>
#include <thread>

#include "runtime/drivers/webgpu.h"
#include "unit/codegen/example_kernels.h"
#include "unit/codegen/kernel_runner.h"

namespace xyntra {
namespace {

void multiply_on_cpu(std::int64_t k) {
  const std::int64_t m = 12, n = 32;
  KernelRunner runner(tiled_matmul(m, n, k));  // compiled here: no cache lies between
  auto buffers = runner.buffers();
  buffers[0].set(std::vector<float>(static_cast<std::size_t>(m * k), 2));
  buffers[1].set(std::vector<float>(static_cast<std::size_t>(k * n), 3));
  ASSERT_EQ(0, runner.run(buffers));
  EXPECT_EQ(std::vector<float>(static_cast<std::size_t>(m * n), static_cast<float>(6 * k)),
            buffers[2].as<float>());
}

void scale_on_webgpu(webgpu::Device& device, int factor) {
  const webgpu::Shader shader{.wgsl =
                                  "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
                                  "@compute @workgroup_size(64)\n"
                                  "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
                                  "  x[id.x] = sqrt(x[id.x]) * " +
                                  std::to_string(factor) + ".0;\n}\n",
                              .entry = "main",
                              .writable = {true}};
  const std::vector<float> x(256, 4);
  auto buffer = device.allocate(1024);
  auto pipeline = device.pipeline(shader);
  ASSERT_TRUE(buffer && pipeline);
  ASSERT_TRUE(device.write(*buffer, 0, std::as_bytes(std::span(x))));
  webgpu::Recording recording;
  const webgpu::BufferRange range{&*buffer, 0, 1024};
  ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 4, 1, 1));
  ASSERT_TRUE(device.submit(recording));
  std::vector<float> got(256);
  ASSERT_TRUE(device.read(*buffer, 0, std::as_writable_bytes(std::span(got))));
  EXPECT_EQ(got, std::vector<float>(256, static_cast<float>(2 * factor)));
}

TEST(WebGpuBesideLlvm, BothMakeCodeInOneProcess) {
  ::setenv("NODEVICE_SELECT", "1", 0);  // a Vulkan layer that prints errors on machines without a display
  multiply_on_cpu(5);
  const auto device = webgpu::Device::open("");
  if (!device) GTEST_SKIP() << device.error().to_string();
  scale_on_webgpu(**device, 1);
  multiply_on_cpu(6);
  std::thread other([&] {
    for (int factor = 2; factor < 8; ++factor) scale_on_webgpu(**device, factor);
  });
  for (std::int64_t k = 7; k < 13; ++k) multiply_on_cpu(k);
  other.join();
}

}  // namespace
}  // namespace xyntra
