// What thread blocks take of a multiprocessor, as the driver says it.
#include <gtest/gtest.h>

#include "compiler/compiled/ptx_backend.h"
#include "compiler/pipeline.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "unit/cuda/with_fake_cuda.h"

namespace xyntra {
namespace {

TEST(Resources, OfEveryKernelAndPhase) {
  auto module =
      parse_xir("xir 1\ngraph @main(%x: f32[64, 512]) -> (%y) {\n  %y: f32[64, 512] = Softmax(%x)\n}\n");
  ASSERT_TRUE(module);
  ASSERT_TRUE(infer_types(module->graph));
  CompileOptions options;
  options.target = *find_target("h100");
  const auto plan = make_plan(module->graph, options);
  ASSERT_TRUE(plan);
  const auto model = compile_for_ptx(*plan, {}, "");
  ASSERT_TRUE(model) << model.error().message;
  for (std::uint32_t kernel = 0; kernel < model->kernels; ++kernel) {
    const auto phases = model->driver->resources(kernel);
    ASSERT_FALSE(phases.empty());
    for (const KernelDriver::Resources& one : phases) {
      EXPECT_EQ(one.registers, 40);
      EXPECT_EQ(one.local_bytes, 0);
      EXPECT_EQ(one.blocks, 2048 / one.threads);
      EXPECT_NEAR(one.occupancy, static_cast<double>(one.blocks * one.threads) / 2048, 0.07);
    }
  }
}

}  // namespace
}  // namespace xyntra
