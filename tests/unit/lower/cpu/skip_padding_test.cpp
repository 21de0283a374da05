// Windows that leave out their products with padding: where weights are finite, with the bits of those that do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/lock.h"
#include "schedule/convolution/window_border.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

// A convolution between two of 1 × 1, so that its feature map is blocked, and a pool after them.
Graph model_of(std::int64_t step, float one_weight) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 16, 15, 15}));
  auto convolve = [&](ValueId from, const char* name, std::int64_t window, Attributes attributes) {
    Tensor weights = noise({16, 16, window, window}, static_cast<std::uint32_t>(window));
    if (window > 1) weights.mutable_view<float>()[0] = one_weight;
    const ValueId w = graph.add_constant(std::string(name) + ".w", weights);
    return graph.output_of(graph.add_node("Conv", {from, w}, {name}, std::move(attributes), name));
  };
  const std::vector<std::int64_t> pads{1, 1, 1, 1}, steps{step, step};
  const ValueId y = convolve(convolve(x, "before", 1, {}), "window", 3, {{"pads", pads}, {"strides", steps}});
  const ValueId pool = graph.output_of(graph.add_node("MaxPool", {convolve(y, "after", 1, {})}, {"pool"},
                                                      {{"kernel_shape", std::vector<std::int64_t>{3, 3}},
                                                       {"pads", pads},
                                                       {"strides", std::vector<std::int64_t>{2, 2}}},
                                                      "pool"));
  graph.outputs = {convolve(pool, "last", 1, {})};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

CompileOptions for_cpu() {
  CompileOptions options;
  options.target = *find_target("avx512");
  return options;
}

Plan plan_of(const Graph& graph) {
  auto plan = make_plan(graph, for_cpu());
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

std::size_t with_knob(const Plan& plan) {
  std::size_t count = 0;
  for (const Group& group : plan.groups)
    count += static_cast<std::size_t>(std::ranges::count(group.schedule.knobs, kSkipPadding, &Knob::name));
  return count;
}

TEST(SkipPadding, HasTheBitsOfAPaddedFeatureMap) {
  for (std::int64_t step : {1, 2}) {
    SCOPED_TRACE(step);
    const Plan plan = plan_of(model_of(step, 0.5F));
    EXPECT_EQ(with_knob(plan), 1U);
    Plan without = plan;
    for (Group& group : without.groups) {
      std::erase_if(group.schedule.knobs, [](const Knob& knob) { return knob.name == kSkipPadding; });
      group.schedule.forms.clear();  // padding is a stage of its own then
    }
    const std::vector<Datum> inputs{Datum::of(noise({1, 16, 15, 15}, 7))};
    const std::vector<float> made = simulated(plan, inputs);
    EXPECT_EQ(made, simulated(without, inputs));
    if (host_target().vector_bits < 512) continue;
    for (int threads : {1, 2}) EXPECT_EQ(executed(plan, inputs, threads), made) << threads << " threads";
  }
}

TEST(SkipPadding, ZeroTimesInfinityStaysNaN) {
  for (float weight : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Plan plan = plan_of(model_of(1, weight));
    EXPECT_EQ(with_knob(plan), 0U);
    const std::vector<Datum> inputs{Datum::of(noise({1, 16, 15, 15}, 7))};
    const std::vector<float> made = simulated(plan, inputs), expected = evaluated(plan, inputs);
    ASSERT_EQ(made.size(), expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) ASSERT_EQ(std::isnan(made[i]), std::isnan(expected[i]));
    EXPECT_TRUE(std::isnan(made[0]));
  }
}

TEST(SkipPadding, ALockMustNotSayItOfInfiniteWeights) {
  for (bool finite : {true, false}) {
    SCOPED_TRACE(finite);
    Module module;
    module.graph = model_of(1, finite ? 0.5F : std::numeric_limits<float>::infinity());
    auto lock = make_lock(module, for_cpu());
    ASSERT_TRUE(lock.has_value()) << lock.error().message;
    const std::string plain = "schedule window reassociating {tile_columns",
                      named = "schedule window reassociating {skip_padding = 1, tile_columns";
    EXPECT_EQ(lock->text.find(named) != std::string::npos, finite) << lock->text;
    std::string text = lock->text;
    if (!finite) {
      const std::size_t at = text.find(plain);
      ASSERT_NE(at, std::string::npos) << text;
      text.replace(at, plain.size(), named);
    }
    auto loaded = load_lock(text, module, {});
    EXPECT_EQ(loaded.has_value(), finite);
    if (finite) continue;
    EXPECT_NE(loaded.error().message.find("weights are not finite"), std::string::npos)
        << loaded.error().message;
  }
}

}  // namespace
}  // namespace xyntra
