#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/pipeline.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "report/contract.h"
#include "report/explain/explain.h"
#include "report/explain/groups.h"
#include "report/explain/why.h"

namespace xyntra {
namespace {

constexpr const char* kLayer = R"(xir 1
graph @main(%x: f32[n, 64], %w: f32[64, 32], %b: f32[32], %v: f32[32, 8], %i: i64[n]) -> (%y, %found) {
  const %flat: i64[1] = [-1]
  %m: f32[n, 32] = MatMul(%x, %w) @"layer/matmul"
  %a: f32[n, 32] = Add(%m, %b) @"layer/add"
  %r: f32[n, 32] = Relu(%a) @"layer/relu"
  %p: f32[n, 8] = MatMul(%r, %v) @"layer/project"
  %y: f32[*] = Reshape(%p, %flat) @"layer/flatten"
  %found: i64[1, k] = NonZero(%i) @"layer/nonzero"
}
)";

struct Planned {
  Module module;
  CompileOptions options;
  Plan plan;
  PlanFigures figures;
};

Planned planned(const char* text, bool fusion = true) {
  Planned made;
  auto module = parse_xir(text);
  EXPECT_TRUE(module.has_value()) << module.error().message;
  made.module = std::move(*module);
  EXPECT_TRUE(infer_types(made.module).has_value());
  made.options.target = *find_target("avx512");
  made.options.fusion.enabled = fusion;
  made.options.fusion.choose.nominal = {{"n", 16}};
  auto plan = make_plan(made.module.graph, made.options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  made.plan = std::move(*plan);
  auto figures = figures_of(made.module.graph, made.plan, made.options);
  EXPECT_TRUE(figures.has_value()) << figures.error().message;
  made.figures = std::move(*figures);
  return made;
}

TEST(Figures, BytesOfTheUnfusedModelAreThoseOfEveryNode) {
  const Planned made = planned(kLayer);
  const std::int64_t hidden = 16 * 32 * 4;
  const std::int64_t matmul = (16 * 64 + 64 * 32) * 4 + hidden, add = hidden + 32 * 4 + hidden,
                     relu = 2 * hidden;
  const std::int64_t project = hidden + (32 * 8 + 16 * 8) * 4;  // the reshape only renames bytes
  EXPECT_EQ(made.figures.model.bytes, matmul + add + relu + project);
  EXPECT_EQ(made.figures.model.ops, 6U);
  EXPECT_EQ(made.figures.model.kernels, 4U);
  EXPECT_EQ(made.figures.model.host_calls, 1U);
}

TEST(Figures, WhatIsSavedIsTheDifference) {
  const Planned made = planned(kLayer);
  std::int64_t saved = 0;
  for (const GroupFigures& group : made.figures.groups) saved += group.bytes_saved;
  EXPECT_EQ(made.figures.rewritten.bytes - made.figures.bytes, saved);
  EXPECT_LT(made.figures.bytes, made.figures.model.bytes);
  EXPECT_EQ(made.figures.host_calls, 1U);
  EXPECT_LT(made.figures.kernels, made.figures.model.kernels);
}

TEST(Figures, WithoutFusionNothingIsSaved) {
  const Planned made = planned(kLayer, false);
  EXPECT_EQ(made.figures.kernels + made.figures.host_calls, made.plan.groups.size());
  EXPECT_EQ(made.figures.index_changes, 0U);
}

TEST(Figures, SizesNobodyGaveAreNamed) {
  Planned made = planned(kLayer);
  EXPECT_EQ(sizes_line(made.figures), "n=16");
  made.options.fusion.choose.nominal.clear();
  made.plan.nominal = {{"n", 128}};
  auto figures = figures_of(made.module.graph, made.plan, made.options);
  ASSERT_TRUE(figures.has_value());
  EXPECT_EQ(sizes_line(*figures), "n=128  (assumed: n; --dim NAME=SIZE decides)");
}

TEST(Explain, NeighboursThatAreEqualAreCounted) {
  EXPECT_EQ(compressed({}), "");
  EXPECT_EQ(compressed({"Add"}), "Add");
  EXPECT_EQ(compressed({"Add", "Add", "Relu", "Add"}), "Add×2 Relu Add");
  EXPECT_EQ(compressed({"Add", "Relu", "Mul", "Mul"}, 8), "Add Relu … 2 more");
}

TEST(Explain, UnitsAreChosenBySize) {
  EXPECT_EQ(time_text(0), "0 ns");
  EXPECT_EQ(time_text(999), "999 ns");
  EXPECT_EQ(time_text(1'250), "1.2 us");
  EXPECT_EQ(time_text(250'000), "250 us");
  EXPECT_EQ(time_text(3'000'000), "3 ms");
  EXPECT_EQ(flops_text(1'500), "1.5 kflop");
  EXPECT_EQ(flops_text(22'000'000'000), "22 Gflop");
}

TEST(Explain, TheJsonHasWhatIsPromised) {
  const Planned made = planned(kLayer);
  const Json json = plan_json(made.plan, made.figures);
  for (const char* key :
       {"id", "hero", "ops", "nodes", "bytes_in", "bytes_out", "flops", "schedule", "reason"}) {
    for (const Json& group : json["groups"].elements()) EXPECT_TRUE(group.find(key) != nullptr) << key;
  }
  for (const char* key : {"from", "to", "verdict", "reason"}) {
    for (const Json& edge : json["edges"].elements()) EXPECT_TRUE(edge.find(key) != nullptr) << key;
  }
  for (const char* key :
       {"ops", "kernels", "bytes_unfused", "bytes_fused", "arena_bytes", "arena_lower_bound"}) {
    EXPECT_TRUE(json["totals"].find(key) != nullptr) << key;
  }
  EXPECT_EQ(json["totals"]["ops"], 6);
  EXPECT_EQ(json["edges"].size(), made.plan.edges.size());
}

TEST(Contract, KeptAndBroken) {
  const Planned made = planned(kLayer);
  EXPECT_TRUE(broken_parts({}, made.plan, made.figures).empty());
  ContractSettings contract;
  contract.max_kernels = static_cast<std::int64_t>(made.figures.kernels);
  contract.max_bytes = made.figures.bytes;
  EXPECT_TRUE(broken_parts(contract, made.plan, made.figures).empty());
  contract = {*contract.max_kernels - 1, *contract.max_bytes - 1, true};
  const auto broken = broken_parts(contract, made.plan, made.figures);
  ASSERT_EQ(broken.size(), 3U);
  EXPECT_TRUE(broken[0].starts_with("max_kernels: ")) << broken[0];
  EXPECT_NE(broken[0].find(" 1 more than the "), std::string::npos) << broken[0];
  EXPECT_TRUE(broken[1].starts_with("max_bytes: ")) << broken[1];
  EXPECT_NE(broken[2].find("(NonZero) runs on the host"), std::string::npos) << broken[2];
}

Why why(const Planned& made, const char* from, const char* to) {
  auto answer = why_not_one(made.module.graph, made.plan, made.options, from, to);
  EXPECT_TRUE(answer.has_value()) << answer.error().message;
  return answer ? std::move(*answer) : Why();
}

TEST(Why, OneKernel) {
  const Planned made = planned(kLayer);
  const Why answer = why(made, "layer/matmul", "layer/relu");
  EXPECT_TRUE(answer.group.has_value());
  EXPECT_FALSE(answer.cut.has_value());
  EXPECT_TRUE(why_text(made.plan, answer, 120).find("one kernel: group ") != std::string::npos);
}

TEST(Why, TwoContractionsAreCutWithAReason) {
  const Planned made = planned(kLayer);
  const Why answer = why(made, "layer/project", "layer/matmul");
  EXPECT_FALSE(answer.group.has_value());
  EXPECT_TRUE(answer.backwards);
  ASSERT_TRUE(answer.cut.has_value());
  EXPECT_EQ(made.plan.graph.node(answer.way[*answer.cut].to).op, "MatMul");
  EXPECT_EQ(answer.bytes_saved, 2 * 16 * 32 * 4);
  EXPECT_FALSE(answer.changes.empty());
}

TEST(Why, ValuesAreNamesToo) {
  const Planned made = planned(kLayer);
  EXPECT_EQ(why(made, "m", "a").group, why(made, "layer/matmul", "layer/add").group);
}

// Parallel matmuls become one and a split: the name of one of them is the matmul, not the split.
TEST(Why, AMergedNodeIsWhatDoesItsWork) {
  Planned made = planned(kLayer);
  const NodeId matmul = find_in_plan(made.module.graph, made.plan, "layer/matmul")->nodes.at(0);
  const NodeId relu = find_in_plan(made.module.graph, made.plan, "layer/relu")->nodes.at(0);
  made.plan.graph.node(matmul).origin = "layer/other, layer/matmul";
  made.plan.graph.node(relu).origin = "layer/other, layer/matmul and 3 more";
  EXPECT_EQ(find_in_plan(made.module.graph, made.plan, "layer/matmul")->nodes, std::vector<NodeId>{matmul});
  EXPECT_EQ(short_title_of(made.plan.graph, relu), "layer/other …");
}

TEST(Why, NothingFlowsBetweenThem) {
  const Planned made = planned(kLayer);
  const Why answer = why(made, "layer/matmul", "layer/nonzero");
  EXPECT_TRUE(answer.way.empty());
  EXPECT_NE(why_text(made.plan, answer, 120).find("nothing flows"), std::string::npos);
}

TEST(Why, UnknownNamesGetTheNearest) {
  const Planned made = planned(kLayer);
  const auto answer = why_not_one(made.module.graph, made.plan, made.options, "layer/matmull", "layer/relu");
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().error_class, ErrorClass::Usage);
  EXPECT_EQ(answer.error().hint, "did you mean 'layer/matmul'?");
}

TEST(Groups, EveryNodeThatIsComputedHasAComment) {
  const Planned made = planned(kLayer);
  const auto comments = group_comments(made.plan);
  for (const Group& group : made.plan.groups) {
    for (NodeId node : group.nodes) EXPECT_TRUE(comments[node.index].starts_with("group"));
  }
  EXPECT_EQ(clusters_of(made.plan, false).size(), made.plan.groups.size());
  EXPECT_EQ(clusters_of(made.plan, true).size(), made.figures.kernels);
}

}  // namespace
}  // namespace xyntra
