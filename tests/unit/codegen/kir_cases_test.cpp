// The kernels of tests/kir as machine code, as shaders and as PTX: those that a CPU, a WebGPU device or an NVIDIA GPU can run give the results
// that they give on the simulator.
#include <set>

#include "codegen/ptx/emit.h"
#include "codegen/wgsl/emit.h"
#include "kir/kernel.h"
#include "runtime/drivers/ptx_driver.h"
#include "runtime/drivers/shader_driver.h"
#include "target/tiles.h"
#include "unit/codegen/kernel_runner.h"
#include "unit/kir/cases.cpp"  // the cases are shared with the simulator's tests

namespace xyntra {
namespace {

// What is wrong with the results of a launch.
std::string wrong_by(KernelDriver& driver, const kir::Kernel& kernel, const kir::Case& one) {
  kir::Arguments arguments = one.arguments();
  std::vector<KernelArgument> memory;
  ProgramStep step;
  std::size_t position = 0;
  auto spans = arguments.spans();
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.scope != kir::Scope::Global) continue;
    const std::span<std::byte> bytes = spans[position];
    const auto size = static_cast<std::int64_t>(bytes.size());
    memory.push_back({bytes.data(), size, bytes.data(), size, false});
    (buffer.written ? step.outputs : step.inputs).push_back(static_cast<ProgramValueId>(position++));
  }
  driver.begin(KernelDriver::Timed::No);
  if (auto launched = driver.launch(step, memory, one.sizes); !launched) return launched.error().to_string();
  if (auto fetched = driver.fetch(spans); !fetched) return fetched.error().to_string();
  return one.wrong(arguments);
}

class KernelFiles : public testing::TestWithParam<std::size_t> {};

TEST_P(KernelFiles, RunAsMachineCode) {
  const kir::Case& one = kir::cases()[GetParam()];
  auto kernel = kir::parse_kernel(kir::kernel_text(one.file));
  ASSERT_TRUE(kernel.has_value()) << kernel.error().to_string();
  auto made = compile_kernels(std::span(&*kernel, 1), native_cpu());
  if (!made) {  // threads of one work item that wait for one another: a GPU's; or a unit that is not here
    EXPECT_EQ(ErrorClass::Unsupported, made.error().error_class) << made.error().to_string();
    const bool unit = one.file.ends_with("_i8") || one.file.starts_with("gemm_amx");
    const char* why = one.file.find("cluster") != std::string::npos ? "a cluster" : "threads that wait";
    EXPECT_NE(std::string::npos, made.error().message.find(unit ? "the CPU has no" : why))
        << made.error().message;
    return;
  }
  if (made->kernels[0].uses_tiles && !allow_tiles()) GTEST_SKIP() << "no tiles here";
  KernelRunner runner(*kernel);
  for (bool guard_before : {false, true}) {
    auto buffers = runner.buffers(one.sizes, guard_before);
    kir::Arguments arguments = one.arguments();
    auto spans = arguments.spans();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      std::memcpy(buffers[i].data(), spans[i].data(), spans[i].size());
    ASSERT_EQ(0, runner.run(buffers, one.sizes, 3));
    for (std::size_t i = 0; i < buffers.size(); ++i)
      std::memcpy(spans[i].data(), buffers[i].data(), spans[i].size());
    EXPECT_EQ("", one.wrong(arguments)) << one.file;
  }
}

TEST_P(KernelFiles, RunAsShaders) {
  const kir::Case& one = kir::cases()[GetParam()];
  auto kernel = kir::parse_kernel(kir::kernel_text(one.file));
  ASSERT_TRUE(kernel.has_value()) << kernel.error().to_string();
  const WgslFeatures everything{.int64 = true, .float64 = true};
  auto shader = emit_wgsl(*kernel, everything);
  // Tiles, copies on their own and warpgroups are not WebGPU's, nor are warps every adapter's; atomic updates are not written as shaders;
  // these rows are as long as a size says.
  static const std::set<std::string> kOthers{
      "attention_warpgroup",    "centre_rows_cluster",   "gemm_amx",     "gemm_amx_i8",
      "gemm_cluster_multicast", "gemm_dot4_i8",          "gemm_mmla_i8", "gemm_stream_k",
      "gemm_warp_specialised",  "gemm_warpgroup_turned", "histogram",    "normalise_rows",
      "softmax_by_warps",       "softmax_rows"};
  ASSERT_EQ(kOthers.count(one.file) == 0, shader.has_value()) << one.file;
  if (!shader) {
    EXPECT_EQ(ErrorClass::Unsupported, shader.error().error_class) << shader.error().to_string();
    return;
  }
  EXPECT_EQ(shader->text, emit_wgsl(*kernel, everything)->text) << "the same kernel, the same text";
  auto device = webgpu::Device::open("");
  if (!device) GTEST_SKIP() << device.error().message;
  if (!(*device)->adapter().int64) GTEST_SKIP() << "the adapter has no 64-bit integers";
  auto shared = drive_shaders({*shader}, *device);
  ASSERT_TRUE(shared.has_value()) << shared.error().to_string() << "\n" << shader->text;
  auto driver = (*shared)->another();
  EXPECT_EQ("", wrong_by(*driver, *kernel, one)) << one.file << "\n" << shader->text;
}

TEST_P(KernelFiles, RunAsPtx) {
  const kir::Case& one = kir::cases()[GetParam()];
  auto kernel = kir::parse_kernel(kir::kernel_text(one.file));
  ASSERT_TRUE(kernel.has_value()) << kernel.error().to_string();
  auto made = emit_ptx(*kernel, {});
  // Units of CPUs; rows as long as a size says.
  static const std::set<std::string> kOthers{"gemm_amx",     "gemm_amx_i8",    "gemm_dot4_i8",
                                             "gemm_mmla_i8", "normalise_rows", "softmax_rows"};
  ASSERT_EQ(kOthers.count(one.file) == 0, made.has_value())
      << one.file << (made ? "" : made.error().to_string());
  if (!made) {
    EXPECT_EQ(ErrorClass::Unsupported, made.error().error_class) << made.error().to_string();
    return;
  }
  EXPECT_EQ(made->text, emit_ptx(*kernel, {})->text) << "the same kernel, the same text";
  auto device = cuda::Device::open("");
  if (!device) GTEST_SKIP() << device.error().message;
  const bool by_warpgroups = made->text.find("sm_90a") != std::string::npos;
  if (by_warpgroups && !(*device)->chip().has_warpgroup_units()) GTEST_SKIP() << "no warpgroups here";
  auto shared = cuda::drive_ptx({*made}, *device);
  ASSERT_TRUE(shared.has_value()) << shared.error().to_string() << "\n" << made->text;
  auto driver = (*shared)->another();
  EXPECT_EQ("", wrong_by(*driver, *kernel, one)) << one.file;
}

INSTANTIATE_TEST_SUITE_P(Kir, KernelFiles, testing::Range(std::size_t{0}, kir::cases().size()),
                         [](const auto& number) {
                           return kir::cases()[number.param].file + "_" + std::to_string(number.param);
                         });

}  // namespace
}  // namespace xyntra
