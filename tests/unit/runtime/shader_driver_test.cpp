// The driver of shaders, where a launch fails and the next one does not.
#include "runtime/drivers/shader_driver.h"

#include <gtest/gtest.h>

#include <array>

namespace xyntra {
namespace {

// y = x + w, both in one binding.
ShaderKernel packed_sum() {
  ShaderKernel kernel;
  kernel.text = R"(@group(0) @binding(0) var<storage, read_write> pack: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() { y[0] = pack[0] + pack[4]; }
)";
  kernel.phases = {{.entry = "main", .items = 1, .bindings = {0, 1}}};
  kernel.bindings = {{{{.argument = 0, .bytes = 4}, {.argument = 1, .bytes = 4, .at = 16}}},
                     {{{.argument = 2}}}};
  return kernel;
}

TEST(ShaderDriver, ConstantsAreInTheirPackAfterALaunchThatFailed) {
  auto device = webgpu::Device::open("");
  if (!device) GTEST_SKIP() << device.error().message;
  const std::int64_t too_large = (*device)->adapter().limits.buffer_bytes + 4;
  auto made = drive_shaders({packed_sum()}, *device);
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  const std::unique_ptr<KernelDriver> driver = (*made)->another();
  ProgramStep step;
  step.inputs = {0, 1};
  step.outputs = {2};
  std::array<float, 1> x{3}, w{4}, y{0};
  auto launch = [&](std::int64_t piece_bytes) {
    auto argument = [](std::array<float, 1>& value) {
      auto* memory = reinterpret_cast<std::byte*>(value.data());
      return KernelArgument{memory, 4, memory, 4};
    };
    std::array<KernelArgument, 3> arguments{argument(x), argument(w), argument(y)};
    arguments[0].piece_bytes = piece_bytes;
    arguments[1].constant = true;
    driver->begin(KernelDriver::Timed::No);
    return driver->launch(step, arguments, {});
  };
  const Status refused = launch(too_large);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error_class, ErrorClass::Limit);
  const Status launched = launch(4);
  ASSERT_TRUE(launched.has_value()) << launched.error().to_string();
  const std::span<std::byte> place = std::as_writable_bytes(std::span(y));
  ASSERT_TRUE(driver->fetch({&place, 1}).has_value());
  EXPECT_EQ(y[0], 7.0F);
}

}  // namespace
}  // namespace xyntra
