// What the WebGPU driver makes of a Vulkan driver that fails, through the layer in tests/vulkan_faults. Each test is a
// process of its own: the layer is named before the library is opened, and a wrong answer may be the end of it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

#include "runtime/drivers/webgpu.h"

namespace xyntra::webgpu {
namespace {

#ifdef XYNTRA_VULKAN_FAULTS

enum Answer : int { AsExpected = 0, Unexpected = 1 };

void fail_with(int fault) {
  void* layer = ::dlopen(XYNTRA_VULKAN_FAULTS "/libxyntra_vulkan_faults.so", RTLD_NOW | RTLD_NOLOAD);
  void* symbol = layer == nullptr ? nullptr : ::dlsym(layer, "xyntra_vulkan_fault");
  if (symbol == nullptr) std::exit(Unexpected);
  static_cast<std::atomic<int>*>(symbol)->store(fault);
}

std::shared_ptr<Device> device_with_faults() {
  auto opened = Device::open("");
  if (!opened) std::exit(Unexpected);
  return *opened;
}

// A submission that takes some milliseconds.
Status submit_work(Device& device) {
  XYNTRA_TRY(const Pipeline pipeline, device.pipeline({.wgsl = R"(
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) id: u32) {
  for (var i = 0u; i < 1000000u; i++) { x[id] = x[id] * 1664525u + 1013904223u; }
}
)",
                                                       .entry = "main",
                                                       .writable = {true}}));
  XYNTRA_TRY(const Buffer buffer, device.allocate(256));
  Recording recording;
  const BufferRange range{&buffer, 0, 256};
  XYNTRA_CHECK_OK(recording.dispatch(pipeline, {&range, 1}, {}, 1, 1, 1));
  return device.submit(recording);
}

bool works(Device& device) { return submit_work(device) && device.wait(); }
bool says_lost(const Status& status) {
  return !status && status.error().error_class == ErrorClass::Device && status.error().fatal;
}

[[noreturn]] void lose_a_device_in_mid_run() {
  const auto device = device_with_faults();
  const bool submitted = submit_work(*device).has_value();
  fail_with(1);
  const bool said = says_lost(device->wait()) && device->lost() && says_lost(submit_work(*device));
  fail_with(0);
  const auto fresh = Device::open("");
  std::exit(submitted && said && fresh && works(**fresh) ? AsExpected : Unexpected);
}

[[noreturn]] void lose_a_device_in_a_submission() {
  const auto device = device_with_faults();
  if (!works(*device)) std::exit(Unexpected);
  fail_with(3);
  std::exit(says_lost(submit_work(*device)) ? AsExpected : Unexpected);
}

[[noreturn]] void run_out_of_memory() {
  const auto device = device_with_faults();
  fail_with(2);
  const auto refused = device->allocate(std::int64_t{100} << 20);
  const bool said = !refused && refused.error().error_class == ErrorClass::Device && !refused.error().fatal &&
                    refused.error().message.find("no memory") != std::string::npos;
  fail_with(0);
  std::exit(said && device->allocate(std::int64_t{100} << 20) && works(*device) ? AsExpected : Unexpected);
}

class WebGpuFaultsDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ::setenv("NODEVICE_SELECT", "1", 0);
    const auto found = adapters();
    if (!found || found->empty()) GTEST_SKIP() << "no adapter";
    // For the process to come: this one's library is open by now.
    ::setenv("VK_LAYER_PATH", XYNTRA_VULKAN_FAULTS, 1);
    ::setenv("VK_INSTANCE_LAYERS", "VK_LAYER_XYNTRA_faults", 1);
  }
  void TearDown() override {
    ::unsetenv("VK_LAYER_PATH");
    ::unsetenv("VK_INSTANCE_LAYERS");
  }
};

TEST_F(WebGpuFaultsDeathTest, a_device_lost_in_mid_run_is_an_error_and_a_new_one_works) {
  EXPECT_EXIT(lose_a_device_in_mid_run(), testing::ExitedWithCode(AsExpected), "");
}

// What docs/wgsl-backend.md says is left. A wgpu-native that answers instead fails this test: then the text goes, too.
TEST_F(WebGpuFaultsDeathTest, a_device_lost_in_the_call_of_a_submission_ends_the_process) {
  EXPECT_EXIT(lose_a_device_in_a_submission(), testing::KilledBySignal(SIGABRT), "");
}

TEST_F(WebGpuFaultsDeathTest, a_device_without_memory_goes_on) {
  EXPECT_EXIT(run_out_of_memory(), testing::ExitedWithCode(AsExpected), "");
}

#else

TEST(WebGpuFaultsDeathTest, need_the_headers_of_vulkan) {
  GTEST_SKIP() << "the package libvulkan-dev is not installed";
}

#endif

}  // namespace
}  // namespace xyntra::webgpu
