// Convolutions of feature maps of free height and width: several lines share a pass of a sum, tiles inside a line read without clamps.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/lock.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

constexpr std::int64_t kChannels = 64;  // sums that take several passes

// A convolution between two others, so that its feature map is blocked.
Graph model_of(const Dim& height, const Dim& width, std::int64_t step) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 16, height, width}));
  auto convolve = [&](ValueId from, const char* name, const Dims& weights, Attributes attributes) {
    const ValueId w = graph.add_constant(std::string(name) + ".w", noise(weights, 3));
    return graph.output_of(graph.add_node("Conv", {from, w}, {name}, std::move(attributes), name));
  };
  const std::vector<std::int64_t> pads{1, 1, 1, 1}, steps{step, step};
  const ValueId before = convolve(x, "before", {kChannels, 16, 1, 1}, {});
  const ValueId y = convolve(before, "window", {32, kChannels, 3, 3}, {{"pads", pads}, {"strides", steps}});
  graph.outputs = {convolve(y, "after", {16, 32, 1, 1}, {})};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

Plan plan_of(const Graph& graph, std::int64_t height, std::int64_t width) {
  CompileOptions options;
  options.target = *find_target("avx512");
  options.fusion.choose.nominal = {{"h", height}, {"w", width}};
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

TEST(FreeMaps, AreTiledAndHaveOneResultForAllExpectedSizes) {
  for (std::int64_t step : {1, 2, 4}) {
    SCOPED_TRACE(step);
    const Graph graph = model_of(Dim::symbol("h"), Dim::symbol("w"), step);
    const Plan plan = plan_of(graph, 5, 29), otherwise = plan_of(graph, 6, 70);
    for (const Group& group : plan.groups) {
      const bool plain = std::ranges::count(group.schedule.forms, std::string("plain_loops")) > 0;
      EXPECT_FALSE(plain && group.schedule.kind == ScheduleKind::Window);
    }
    for (const auto& [height, width] : {std::pair{5, 29}, {3, 13}, {1, 1}}) {
      SCOPED_TRACE(std::to_string(height) + " x " + std::to_string(width));
      const std::vector<Datum> inputs{Datum::of(noise({1, 16, height, width}, 7))};
      const std::vector<float> made = simulated(plan, inputs);
      EXPECT_EQ(made, simulated(otherwise, inputs));
      if (host_target().vector_bits < 512) continue;
      for (int threads : {1, 2}) EXPECT_EQ(executed(plan, inputs, threads), made) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace xyntra
