#include "types/settings.h"

#include <gtest/gtest.h>

#include "support/limits/threads.h"

namespace xyntra {
namespace {

TEST(Settings, EveryDtypeHasATolerance) {
  Config config(known_settings());
  EXPECT_EQ(tolerance_of(config, DType::F32).relative, 1e-4);
  EXPECT_EQ(tolerance_of(config, DType::I8).absolute, 0);
  for (DType dtype : all_dtypes()) EXPECT_GE(tolerance_of(config, dtype).relative, 0);
  ASSERT_TRUE(config.read_text("[tolerance.bf16]\nabsolute = 3\n", "f").has_value());
  EXPECT_EQ(tolerance_of(config, DType::BF16).absolute, 3);
}

TEST(Settings, DefaultsOfLimits) {
  const Config config(known_settings());
  const LimitSettings limits = limits_of(config);
  EXPECT_EQ(limits.max_memory, default_memory_limit());
  EXPECT_EQ(limits.timeout, std::nullopt);
  EXPECT_EQ(limits.nesting, 64);
  EXPECT_EQ(limits.nodes, 1'000'000);
  EXPECT_EQ(limits.rank, 32);
  EXPECT_EQ(limits.folded_constant, 64'000'000);
  EXPECT_EQ(config.integer("run.threads"), available_threads());
  EXPECT_EQ(config.integer("run.seed"), 0);
  EXPECT_EQ(config.text("run.backend"), "cpu");
}

TEST(Settings, BudgetsFollowThem) {
  Config config(known_settings());
  ASSERT_TRUE(config.read_text("[limits]\nmax_memory = \"1KB\"\ntimeout = 3600\n", "f").has_value());
  EXPECT_EQ(make_budget(limits_of(config))->max_bytes(), 1000);
  EXPECT_FALSE(make_budget(limits_of(config))->stopped());
  ASSERT_TRUE(config.set_flag("limits.timeout", "1e14", "--timeout").has_value());
  EXPECT_FALSE(make_budget(limits_of(config))->stopped());
  const auto token = std::make_shared<CancelToken>();
  token->cancel();
  EXPECT_TRUE(make_budget(limits_of(config), token)->stopped());
}

}  // namespace
}  // namespace xyntra
