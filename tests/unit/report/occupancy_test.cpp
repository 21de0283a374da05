// What thread blocks take of a multiprocessor by our model: of every phase of every kernel, within what the target has.
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "report/explain/occupancy.h"

namespace xyntra {
namespace {

std::vector<BlockResources> resources_for(const char* target_name) {
  auto module = parse_xir(
      "xir 1\ngraph @main(%x: bf16[16, 4096], %w: bf16[4096, 4096]) -> (%y) {\n"
      "  %p: bf16[16, 4096] = MatMul(%x, %w)\n  %y: bf16[16, 4096] = Softmax(%p)\n}\n");
  EXPECT_TRUE(module);
  EXPECT_TRUE(infer_types(module->graph));
  CompileOptions options;
  options.target = *find_target(target_name);
  const auto plan = make_plan(module->graph, options);
  EXPECT_TRUE(plan);
  const auto lowered = lower_plan(*plan, {});
  EXPECT_TRUE(lowered);
  return block_resources(*lowered, *options.target);
}

TEST(Occupancy, OfEveryPhaseOfEveryKernel) {
  for (const char* name : {"h100", "ampere"}) {
    const Target& target = **find_target(name);
    const std::vector<BlockResources> found = resources_for(name);
    ASSERT_GE(found.size(), 2U);
    bool shares = false;
    for (const BlockResources& one : found) {
      EXPECT_EQ(one.groups.size(), 1U);
      EXPECT_GE(one.blocks, 1);
      EXPECT_EQ(one.warps, (one.threads + 31) / 32);
      EXPECT_LE(one.blocks * one.threads, target.core_threads);
      EXPECT_LE(one.blocks * one.shared_bytes, target.shared_bytes);
      EXPECT_LE(one.blocks * one.threads * one.registers * 4, target.register_bytes);
      EXPECT_LE(one.occupancy, 1);
      EXPECT_GT(one.occupancy, 0);
      shares = shares || one.shared_bytes > 0;
    }
    EXPECT_TRUE(shares);
    const std::string table = occupancy_table(found, 1, 120);
    EXPECT_NE(table.find("occupancy"), std::string::npos);
    EXPECT_EQ(occupancy_json(found).size(), found.size());
  }
}

TEST(Occupancy, NothingWhereThereAreNoMultiprocessors) {
  EXPECT_TRUE(resources_for("avx2").empty());
  EXPECT_TRUE(resources_for("webgpu").empty());
  EXPECT_EQ(occupancy_table({}, 1, 120), "");
}

}  // namespace
}  // namespace xyntra
