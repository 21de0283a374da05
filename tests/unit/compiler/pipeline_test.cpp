#include "compiler/pipeline.h"

#include <gtest/gtest.h>

#include <map>

#include "ir/text.h"
#include "ops/infer.h"
#include "plan/check.h"

namespace xyntra {
namespace {

Graph graph_of(const char* text) {
  auto module = parse_xir(text);
  EXPECT_TRUE(module.has_value()) << module.error().message;
  EXPECT_TRUE(infer_types(*module).has_value());
  return std::move(module->graph);
}

Graph chain() {
  return graph_of(R"(xir 1
graph @main(%x: f32[8, 4]) -> (%y) {
  %e: f32[8, 4] = Exp(%x)
  %s: f32[8, 4] = Softmax(%e)
  %y: f32[8, 4] = Relu(%s)
})");
}

CompileOptions options_for(const char* target) {
  CompileOptions options;
  options.target = *find_target(target);
  return options;
}

TEST(Pipeline, EveryStepIsRecordedInOrder) {
  PipelineLog log;
  const CompileOptions options = options_for("avx512");
  const auto plan = make_plan(chain(), options, &log);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(log.steps.size(), pipeline_steps().size());
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    EXPECT_EQ(log.steps[i].step, &pipeline_steps()[i]);
    EXPECT_EQ(log.steps[i].on, pipeline_steps()[i].is_on(options));
    EXPECT_GE(log.steps[i].runs, 1);
  }
  EXPECT_EQ(log.steps.back().groups, plan->groups.size());
}

TEST(Pipeline, EveryStepCanBeTurnedOff) {
  CompileOptions options = options_for("avx512");
  for (const PipelineStep& step : pipeline_steps()) step.turn_off(options);
  PipelineLog log;
  const auto plan = make_plan(chain(), options, &log);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  for (const StepRecord& record : log.steps) EXPECT_FALSE(record.on);
  EXPECT_EQ(plan->groups.size(), 3U);
}

TEST(Pipeline, WhatNobodyElseNeedsCanBeTurnedOffAlone) {
  for (const PipelineStep& step : pipeline_steps()) {
    CompileOptions options = options_for("avx512");
    step.turn_off(options);
    EXPECT_FALSE(step.is_on(options));
    const auto plan = make_plan(chain(), options);
    EXPECT_TRUE(plan.has_value()) << step.name << ": " << plan.error().message;
  }
}

std::map<std::string, int> runs_of_steps(const Graph& graph, const CompileOptions& options) {
  PipelineLog log;
  const auto plan = make_plan(graph, options, &log);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  std::map<std::string, int> runs;
  for (const StepRecord& record : log.steps) runs[record.step->name] = record.runs;
  return runs;
}

// No tile reads the operand of the product through its changes of index: it is copied first, and the groups around it are made again.
TEST(Pipeline, GroupsAreMadeAgainAroundACopy) {
  const Graph graph = graph_of(R"(xir 1
graph @main(%x: f32[batch, q, 768], %k: f32[batch, n], %w: f32[768, 768]) -> (%y) {
  const %d: i64[2] = [-1, 64]
  const %e: i64[1] = [768]
  %s: i64[2] = Shape(%k)
  %h: i64[4] = Concat(%s, %d) {axis = 0}
  %o: i64[3] = Concat(%s, %e) {axis = 0}
  %r: f32[batch, n, floordiv(768*batch*q, 64*batch*n), 64] = Reshape(%x, %h)
  %t: f32[batch, floordiv(768*batch*q, 64*batch*n), n, 64] = Transpose(%r) {perm = [0, 2, 1, 3]}
  %b: f32[batch, floordiv(768*batch*q, 64*batch*n), n, 64] = Softmax(%t)
  %u: f32[batch, n, floordiv(768*batch*q, 64*batch*n), 64] = Transpose(%b) {perm = [0, 2, 1, 3]}
  %v: f32[batch, n, 768] = Reshape(%u, %o)
  %y: f32[batch, n, 768] = MatMul(%v, %w)
})");
  CompileOptions options = options_for("h100");
  const auto runs = runs_of_steps(graph, options);
  EXPECT_EQ(runs.at("sizes"), 1);
  for (const char* step : {"fuse", "layout", "memory", "forms", "operands"})
    EXPECT_EQ(runs.at(step), 2) << step;
  (*find_step("operands"))->turn_off(options);
  EXPECT_EQ(runs_of_steps(graph, options).at("fuse"), 1);
}

TEST(Pipeline, ADumpShowsThePlanAndWhatChanged) {
  PipelineLog log;
  log.dump_after = "fuse";
  ASSERT_TRUE(make_plan(chain(), options_for("avx512"), &log).has_value());
  EXPECT_NE(log.dump.find("\n// what fuse changed\n"), std::string::npos);
  EXPECT_NE(log.dump.find("\n+group 0: "), std::string::npos);
}

TEST(Pipeline, AnUnknownStepGetsTheNearestName) {
  const auto found = find_step("fus");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().hint, "did you mean 'fuse'?");
}

class CheckedPlan : public testing::Test {
 protected:
  void SetUp() override {
    auto made = make_plan(graph_of(R"(xir 1
graph @main(%x: f32[8, 4], %w: f32[4, 4]) -> (%y) {
  %a: f32[8, 4] = MatMul(%x, %w)
  %y: f32[8, 4] = MatMul(%a, %w)
})"),
                          options_for("avx512"));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    plan = std::move(*made);
    ASSERT_EQ(plan.groups.size(), 2U);
  }
  std::string problem() const {
    const Status found = check_plan(plan);
    return found ? "" : found.error().message;
  }
  Plan plan;
};

TEST_F(CheckedPlan, AcceptsWhatFusionMakes) { EXPECT_EQ(problem(), ""); }

TEST_F(CheckedPlan, GroupsInTheWrongOrder) {
  std::swap(plan.groups[0], plan.groups[1]);
  EXPECT_EQ(problem(), "group 0 reads %a, which no group before it writes");
}

TEST_F(CheckedPlan, AnOutputThatNobodyWrites) {
  plan.groups.pop_back();
  EXPECT_EQ(problem(), "no group writes the output %y");
}

TEST_F(CheckedPlan, AGroupThatWritesWhatItDoesNotCompute) {
  plan.groups[0].outputs.push_back(plan.groups[1].outputs[0]);
  EXPECT_EQ(problem(), "group 0 writes %y, which it does not compute");
}

TEST_F(CheckedPlan, AGroupWithoutNodes) {
  plan.groups[0].nodes.clear();
  EXPECT_EQ(problem(), "group 0 has no nodes");
}

}  // namespace
}  // namespace xyntra
