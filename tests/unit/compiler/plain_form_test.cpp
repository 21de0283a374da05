// Groups whose own form failed: plain loops take them, and a plan says so.
#include <gtest/gtest.h>

#include "compiler/compiled/cpu_backend.h"
#include "compiler/lock.h"
#include "fusion/check.h"
#include "ir/text.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Module layer() {
  auto module = parse_xir(R"(xir 1
graph @main(%x: f32[batch, 8, 6], %w: f32[6, 12], %b: f32[12]) -> (%y) {
  const %axes: i64[1] = [-1]
  %h = MatMul(%x, %w)
  %s = Add(%h, %b)
  %e = Tanh(%s)
  %m = ReduceMean(%e, %axes)
  %y = Sub(%e, %m)
}
)");
  EXPECT_TRUE(module) << module.error().to_string();
  EXPECT_TRUE(infer_types(*module));
  return std::move(*module);
}

CompileOptions options_for(const char* target) {
  CompileOptions options;
  options.target = *find_target(target);
  return options;
}

// The options with which all groups of a plan are plain.
CompileOptions barred(const Plan& plan, CompileOptions options) {
  for (const Group& group : plan.groups)
    options.plain.emplace(names_of_nodes(plan.graph, group), "it failed in a test");
  return options;
}

TEST(PlainForm, TakesEveryGroup) {
  const Module model = layer();
  for (const char* target : {"avx512", "neon", "webgpu"}) {
    const CompileOptions options = options_for(target);
    auto plan = make_plan(model.graph, options);
    ASSERT_TRUE(plan) << plan.error().to_string();
    auto plain = make_plan(model.graph, barred(*plan, options));
    ASSERT_TRUE(plain) << plain.error().to_string();
    for (const Group& group : plain->groups) {
      EXPECT_EQ(group.schedule.kind, ScheduleKind::Plain);
      EXPECT_EQ(group.reason, "it failed in a test");
    }
    Status legal = check_groups(*plain, *options.target);
    EXPECT_TRUE(legal) << legal.error().to_string();
    auto lowered = lower_plan(*plain, {});
    ASSERT_TRUE(lowered) << lowered.error().to_string();
    EXPECT_TRUE(lowered->refused.empty());
    EXPECT_EQ(fallbacks_of(*plain, *lowered).size(), plain->groups.size());
    EXPECT_TRUE(fallbacks_of(*plan, *lower_plan(*plan, {})).empty());
  }
}

TEST(PlainForm, IsReplayedByALock) {
  const Module model = layer();
  const CompileOptions options = options_for("avx2");
  auto plan = make_plan(model.graph, options);
  ASSERT_TRUE(plan);
  auto made = make_lock(model, barred(*plan, options));
  ASSERT_TRUE(made) << made.error().to_string();
  auto loaded = load_lock(made->text, model);
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_TRUE(loaded->replayed);
  EXPECT_EQ(loaded->groups.at(0).schedule.kind, ScheduleKind::Plain);
  EXPECT_TRUE(lower_plan(*loaded, {}));
}

}  // namespace
}  // namespace xyntra
