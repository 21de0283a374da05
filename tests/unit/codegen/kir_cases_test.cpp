// The kernels of tests/kir as machine code: those that a CPU can run give the results that they give on the simulator.
#include "kir/kernel.h"
#include "runtime/code/tiles.h"
#include "unit/codegen/kernel_runner.h"
#include "unit/kir/cases.cpp"  // the cases are shared with the simulator's tests

namespace xyntra {
namespace {

class KernelFiles : public testing::TestWithParam<std::size_t> {};

TEST_P(KernelFiles, RunAsMachineCode) {
  const kir::Case& one = kir::cases()[GetParam()];
  auto kernel = kir::parse_kernel(kir::kernel_text(one.file));
  ASSERT_TRUE(kernel.has_value()) << kernel.error().to_string();
  auto made = compile_kernels(std::span(&*kernel, 1), native_cpu());
  if (!made) {  // threads of one work item that wait for one another: a GPU's
    EXPECT_EQ(ErrorClass::Unsupported, made.error().error_class) << made.error().to_string();
    EXPECT_NE(std::string::npos, made.error().message.find("threads that wait")) << made.error().message;
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

INSTANTIATE_TEST_SUITE_P(Kir, KernelFiles, testing::Range(std::size_t{0}, kir::cases().size()),
                         [](const auto& number) {
                           return kir::cases()[number.param].file + "_" + std::to_string(number.param);
                         });

}  // namespace
}  // namespace xyntra
