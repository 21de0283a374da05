#include "verify/plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/pipeline.h"
#include "ir/text.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Tensor floats(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from<float>(DType::F32, {count}, values);
}
Tensor doubles(std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from<double>(DType::F64, {count}, values);
}

TEST(VerifyPlan, AllowsTwiceTheErrorAndFourUlp) {
  const Tensor exact = doubles({1.0, 2.0});
  EXPECT_EQ(compare_with_unfused(floats({1.0f, 2.0f}), floats({1.0f, 2.0f}), exact).problem, "");
  const float near = 2.0f + 4 * 2.3841858e-07f, far = 2.0f + 6 * 2.3841858e-07f;
  EXPECT_EQ(compare_with_unfused(floats({1.0f, near}), floats({1.0f, 2.0f}), exact).problem, "");
  EXPECT_EQ(compare_with_unfused(floats({1.0f, far}), floats({1.0f, 2.0f}), exact).problem,
            "the error is too large");
  EXPECT_EQ(compare_with_unfused(floats({1.0f, far}), floats({1.0f, near}), exact).problem, "");
}

TEST(VerifyPlan, NanAndInfinityStandWhereTheyStood) {
  const Tensor exact = doubles({NAN, INFINITY});
  EXPECT_EQ(compare_with_unfused(floats({NAN, INFINITY}), floats({NAN, INFINITY}), exact).problem, "");
  EXPECT_EQ(compare_with_unfused(floats({0, INFINITY}), floats({NAN, INFINITY}), exact).problem,
            "NaN stands elsewhere");
  EXPECT_EQ(compare_with_unfused(floats({NAN, 1}), floats({NAN, INFINITY}), exact).problem,
            "an infinity stands elsewhere");
}

TEST(VerifyPlan, FindsAPlanOfAnotherProgram) {
  auto module = parse_xir(R"(xir 1
graph @main(%x: f32[3]) -> (%y) {
  %h: f32[3] = Exp(%x) @exponential
  %y: f32[3] = Neg(%h) @negation
})");
  ASSERT_TRUE(module && infer_types(*module));
  CompileOptions options;
  options.target = *find_target("neon");
  auto plan = make_plan(module->graph, options);
  ASSERT_TRUE(plan) << plan.error().to_string();
  const std::vector<Datum> inputs{Datum::of(floats({0.5f, -1.0f, 2.0f}))};
  auto same = verify_plan(module->graph, *plan, inputs);
  ASSERT_TRUE(same) << same.error().to_string();
  EXPECT_TRUE(same->agrees());
  EXPECT_EQ(same->groups.size(), plan->groups.size());
  for (NodeId id : plan->graph.node_ids()) {
    if (plan->graph.node(id).op == "Neg") plan->graph.node(id).op = "Abs";
  }
  auto other = verify_plan(module->graph, *plan, inputs);
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_FALSE(other->agrees());
}

TEST(VerifyPlan, FindsARewrittenValueThatOutputsHide) {
  auto module = parse_xir(R"(xir 1
graph @main(%x: f32[3], %zero: f32[3]) -> (%y) {
  const %half: f32[] = 0.5
  const %one: f32[] = 1.0
  const %root: f32[] = 1.4142135
  %d: f32[3] = Div(%x, %root)
  %e: f32[3] = Erf(%d)
  %a: f32[3] = Add(%e, %one)
  %m: f32[3] = Mul(%x, %a)
  %g: f32[3] = Mul(%m, %half)
  %y: f32[3] = Mul(%g, %zero)
})");
  ASSERT_TRUE(module && infer_types(*module));
  CompileOptions options;
  options.target = *find_target("neon");
  auto plan = make_plan(module->graph, options);
  ASSERT_TRUE(plan) << plan.error().to_string();
  const std::vector<Datum> inputs{Datum::of(floats({0.5f, 1.0f, 2.0f})), Datum::of(floats({0, 0, 0}))};
  auto same = verify_plan(module->graph, *plan, inputs);
  ASSERT_TRUE(same) << same.error().to_string();
  EXPECT_TRUE(same->agrees());
  ASSERT_EQ(same->chains.size(), 1u);
  EXPECT_EQ(same->chains[0].name, "g: gelu-erf-divided-half-last");
  for (NodeId id : plan->graph.node_ids()) {
    if (plan->graph.node(id).op == "Gelu") plan->graph.node(id).op = "Relu";
  }
  auto other = verify_plan(module->graph, *plan, inputs);
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_EQ(other->outputs[0].error.problem, "");
  EXPECT_EQ(other->chains[0].error.problem, "the error is too large");
  EXPECT_FALSE(other->agrees());
}

}  // namespace
}  // namespace xyntra
