// Convolutions by Winograd: what the plan says, and that every backend computes the same, for any size and number of threads.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/lock.h"
#include "schedule/convolution/winograd.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

Tensor noise(const Dims& dims, std::uint32_t seed) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : tensor.mutable_view<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<double>(state >> 8) / (1 << 23) - 1);
  }
  return tensor;
}

struct Layer {
  Dim batch = 1;
  std::int64_t channels = 16, filters = 32, down = 8, across = 8;
  std::vector<std::int64_t> pads{1, 1, 1, 1};
  bool residual = false;
};

// relu(conv(x) + bias, perhaps + r), between convolutions of 1 × 1 so that feature maps are blocked.
Graph model_of(const Layer& layer) {
  Graph graph;
  const std::int64_t outside = 16;
  const ValueId x =
      graph.add_input("x", Type::tensor(DType::F32, Shape{layer.batch, outside, layer.down, layer.across}));
  auto convolve = [&](ValueId from, const char* name, std::int64_t in, std::int64_t out, std::int64_t window,
                      Attributes attributes) {
    const ValueId w = graph.add_constant(std::string(name) + ".w",
                                         noise({out, in, window, window}, static_cast<std::uint32_t>(out)));
    const ValueId b = graph.add_constant(std::string(name) + ".b", noise({out}, 5));
    return graph.output_of(graph.add_node("Conv", {from, w, b}, {name}, std::move(attributes), name));
  };
  const ValueId before = convolve(x, "before", outside, layer.channels, 1, {});
  ValueId y = convolve(before, "window", layer.channels, layer.filters, 3, {{"pads", layer.pads}});
  if (layer.residual) y = graph.output_of(graph.add_node("Add", {y, before}, {"sum"}));
  y = graph.output_of(graph.add_node("Relu", {y}, {"positive"}));
  graph.outputs = {convolve(y, "after", layer.filters, outside, 1, {})};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

CompileOptions allowing() {
  CompileOptions options;
  options.target = *find_target("avx512");
  options.precision = Precision::Winograd;
  return options;
}

Plan plan_of(const Graph& graph, const CompileOptions& options = allowing()) {
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

const Group* winograd_group(const Plan& plan) {
  for (const Group& group : plan.groups) {
    if (group.schedule.kind == ScheduleKind::Winograd) return &group;
  }
  return nullptr;
}

// The largest difference as a share of the largest element.
double error_of(const std::vector<float>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double worst = 0, largest = 0;
  int misplaced = 0;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    misplaced += std::isnan(got[i]) != std::isnan(expected[i]) ? 1 : 0;
    worst = std::max(worst, std::abs(got[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  EXPECT_EQ(misplaced, 0) << "NaN stands elsewhere";
  return worst / largest;
}

bool runs_here() { return host_target().vector_bits >= 512; }

void check_results(const Graph& graph, const Plan& plan, const std::vector<Datum>& inputs) {
  const std::vector<double> truth = exact(graph, inputs);
  EXPECT_LT(error_of(evaluated(plan, inputs), truth), 2e-5);
  const std::vector<float> made = simulated(plan, inputs);
  EXPECT_LT(error_of(made, truth), 2e-5);
  if (!runs_here()) return;
  for (int threads : {1, 2, 4}) EXPECT_EQ(executed(plan, inputs, threads), made) << threads << " threads";
}

void check(const Layer& layer, std::int64_t batch, std::int64_t tile = 0) {
  SCOPED_TRACE(std::to_string(layer.channels) + " " + std::to_string(layer.filters) + " " +
               std::to_string(layer.down) + " " + std::to_string(layer.across) + " pads " +
               std::to_string(layer.pads[0]) + std::to_string(layer.pads[1]) + std::to_string(layer.pads[2]) +
               std::to_string(layer.pads[3]) + " tile " + std::to_string(tile));
  const Graph graph = model_of(layer);
  Plan plan = plan_of(graph);
  ASSERT_NE(winograd_group(plan), nullptr);
  if (tile != 0) {
    for (Group& group : plan.groups) {
      for (Knob& knob : group.schedule.knobs) {
        if (group.schedule.kind == ScheduleKind::Winograd && knob.name == "output") knob.value = tile;
        if (group.schedule.kind == ScheduleKind::Winograd && knob.name.starts_with("block_")) knob.value = 1;
      }
    }
  }
  check_results(graph, plan, {Datum::of(noise({batch, 16, layer.down, layer.across}, 7))});
}

TEST(Winograd, TransformsAreThoseOfAConvolution) {
  // For both sizes, along one axis: A (G w · B d) is the convolution, to all digits of a double.
  for (const WinogradTransform& transform : WinogradTransform::all()) {
    const std::vector<double> w{0.3, -1.7, 2.9};
    std::vector<double> d;
    for (std::int64_t i = 0; i < transform.input(); ++i) d.push_back(std::sin(1.0 + static_cast<double>(i)));
    auto times = [](std::span<const double> row, const std::vector<double>& vector) {
      double sum = 0;
      for (std::size_t i = 0; i < vector.size(); ++i) sum += row[i] * vector[i];
      return sum;
    };
    std::vector<double> products;
    for (std::int64_t a = 0; a < transform.input(); ++a)
      products.push_back(times(transform.weights(a), w) * times(transform.elements(a), d));
    for (std::int64_t k = 0; k < transform.output; ++k) {
      const auto at = static_cast<std::size_t>(k);
      EXPECT_NEAR(times(transform.results(k), products), w[0] * d[at] + w[1] * d[at + 1] + w[2] * d[at + 2],
                  1e-13);
    }
  }
}

TEST(Winograd, EveryBackendComputesTheSame) {
  check({}, 1);
  check({.channels = 16, .filters = 64, .down = 9, .across = 13}, 1);  // the last tiles reach beyond
  check({.channels = 32, .filters = 32, .down = 7, .across = 7, .residual = true}, 1);
  check({.channels = 32, .filters = 32, .down = 18, .across = 40}, 1);  // blocks of rows, one phase
  check({.channels = 32, .filters = 32, .down = 8, .across = 120}, 1);  // blocks of columns too
  check({.channels = 16, .filters = 32, .down = 12, .across = 9, .pads = {0, 0, 0, 0}}, 1);
  check({.channels = 16, .filters = 32, .down = 5, .across = 6, .pads = {2, 0, 1, 3}}, 1);
  check({.channels = 320, .filters = 32, .down = 4, .across = 4}, 1);  // sums in two parts
}

TEST(Winograd, TilesOfBothSizes) {
  for (std::int64_t tile : {2, 4}) {
    check({.channels = 32, .filters = 32, .down = 20, .across = 23}, 1, tile);
    check({.channels = 32, .filters = 64, .down = 7, .across = 10, .pads = {1, 0, 0, 2}}, 1, tile);
  }
}

TEST(Winograd, TakesAnyBatch) {
  const Layer layer{.batch = Dim::symbol("n"), .channels = 32, .filters = 32, .down = 10, .across = 14};
  for (std::int64_t batch : {1, 3}) check(layer, batch);
  check({.batch = Dim::symbol("n"), .channels = 16, .filters = 32, .down = 20, .across = 33}, 2);
}

TEST(Winograd, RandomWindows) {
  std::uint32_t state = 1;
  auto draw = [&state](std::int64_t low, std::int64_t high) {
    state = state * 1664525U + 1013904223U;
    return low + static_cast<std::int64_t>(state >> 8) % (high - low + 1);
  };
  for (int round = 0; round < 10; ++round) {
    const Layer layer{.batch = draw(1, 2),
                      .channels = 16 * draw(1, 3),
                      .filters = 32 * draw(1, 2),
                      .down = draw(3, 24),
                      .across = draw(3, 24),
                      .pads = {draw(0, 2), draw(0, 2), draw(0, 2), draw(0, 2)}};
    check(layer, layer.batch.constant(), 2 * draw(1, 2));
  }
}

TEST(Winograd, IsTakenOnlyWhereAskedFor) {
  const Graph graph = model_of({.channels = 64, .filters = 64, .down = 28, .across = 28});
  CompileOptions plain = allowing();
  plain.precision = Precision::F32;
  EXPECT_EQ(winograd_group(plan_of(graph, plain)), nullptr);
  const Plan plan = plan_of(graph);
  ASSERT_NE(winograd_group(plan), nullptr);
  EXPECT_EQ(winograd_group(plan)->schedule.exactness, Exactness::PrecisionChanging);
  EXPECT_EQ(plan.groups.size(), plan_of(graph, plain).groups.size());
}

TEST(Winograd, LeavesOtherWindowsAlone) {
  auto taken = [](Attributes attributes, const Dims& weights, bool constant) {
    Graph graph;
    const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 32, 20, 20}));
    const ValueId w = constant ? graph.add_constant("w", noise(weights, 3))
                               : graph.add_input("w", Type::tensor(DType::F32, shape_of(weights)));
    graph.outputs = {graph.output_of(graph.add_node("Conv", {x, w}, {"y"}, std::move(attributes), "y"))};
    EXPECT_TRUE(infer_types(graph).has_value());
    return winograd_group(plan_of(graph)) != nullptr;
  };
  using Integers = std::vector<std::int64_t>;
  EXPECT_TRUE(taken({}, {32, 32, 3, 3}, true));
  EXPECT_FALSE(taken({}, {32, 32, 3, 3}, false));  // weights that come with each run
  EXPECT_FALSE(taken({{"strides", Integers{2, 2}}}, {32, 32, 3, 3}, true));
  EXPECT_FALSE(taken({{"dilations", Integers{2, 2}}}, {32, 32, 3, 3}, true));
  EXPECT_FALSE(taken({{"group", std::int64_t{2}}}, {32, 16, 3, 3}, true));
  EXPECT_FALSE(taken({}, {32, 32, 5, 5}, true));
  EXPECT_FALSE(taken({}, {32, 32, 3, 1}, true));
  EXPECT_FALSE(taken({}, {20, 32, 3, 3}, true));  // filters that fill no panel
}

TEST(Winograd, SharedWeightsStayAsTheyAre) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 32, 20, 20}));
  const ValueId w = graph.add_constant("w", noise({32, 32, 3, 3}, 3));
  const ValueId first = graph.output_of(graph.add_node("Conv", {x, w}, {"a"}, {}, "a"));
  graph.outputs = {graph.output_of(graph.add_node("Conv", {first, w}, {"y"}, {}, "y"))};
  ASSERT_TRUE(infer_types(graph).has_value());
  EXPECT_EQ(winograd_group(plan_of(graph)), nullptr);
}

// What a window reads is 0 in the padding, not what an operation before it makes of 0.
TEST(Winograd, TilesInThePaddingBringNothingInfinite) {
  for (bool padded : {false, true}) {
    for (std::int64_t size : {21, 23}) {  // the last tiles have three rows and columns of results, or one
      SCOPED_TRACE(std::to_string(size) + (padded ? " padded" : ""));
      Graph graph;
      ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 64, size, size}));
      if (padded) {
        Tensor pads = *Tensor::allocate(DType::I64, {8});
        std::ranges::fill(pads.mutable_view<std::int64_t>(), 0);
        pads.mutable_view<std::int64_t>()[2] = 4;  // rows above
        x = graph.output_of(graph.add_node("Pad", {x, graph.add_constant("pads", pads)}, {"more"}));
      }
      x = graph.output_of(graph.add_node("Reciprocal", {x}, {"inverse"}));
      const ValueId w = graph.add_constant("w", noise({64, 64, 3, 3}, 3));
      graph.outputs = {graph.output_of(graph.add_node("Conv", {x, w}, {"y"}, {}, "y"))};
      ASSERT_TRUE(infer_types(graph).has_value());
      const Plan plan = plan_of(graph);
      ASSERT_NE(winograd_group(plan), nullptr);
      ASSERT_LE(plan.groups.size(), 2U);
      Tensor image = noise({1, 64, size, size}, 7);
      for (float& value : image.mutable_view<float>()) value = 2 + value;
      const std::vector<Datum> inputs{Datum::of(image)};
      if (!padded) {
        check_results(graph, plan, inputs);
        continue;
      }
      // The rows above are infinite indeed, and so is the first row of tiles; the last results are far from it.
      for (const std::vector<float>& made : {evaluated(plan, inputs), simulated(plan, inputs)})
        EXPECT_TRUE(std::isfinite(made.back())) << made.back();
    }
  }
}

TEST(Winograd, WhatIsCutOffIsNotRead) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 64, 27, 27}));
  auto numbers = [&](const char* name, std::int64_t value) {
    Tensor tensor = *Tensor::allocate(DType::I64, {2});
    std::ranges::fill(tensor.mutable_view<std::int64_t>(), value);
    if (value == 2) tensor.mutable_view<std::int64_t>()[1] = 3;
    return graph.add_constant(name, tensor);
  };
  const ValueId cut = graph.output_of(
      graph.add_node("Slice", {x, numbers("from", 0), numbers("to", 23), numbers("axes", 2)}, {"cut"}));
  const ValueId w = graph.add_constant("w", noise({64, 64, 3, 3}, 3));
  graph.outputs = {graph.output_of(graph.add_node("Conv", {cut, w}, {"y"}, {}, "y"))};
  ASSERT_TRUE(infer_types(graph).has_value());
  const Plan plan = plan_of(graph);
  ASSERT_NE(winograd_group(plan), nullptr);
  ASSERT_EQ(plan.groups.size(), 1U);
  Tensor image = noise({1, 64, 27, 27}, 7);
  const std::span<float> values = image.mutable_view<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 27 >= 23 || i / 27 % 27 >= 23) values[i] = INFINITY;
  }
  check_results(graph, plan, {Datum::of(image)});
}

TEST(Winograd, WeightsThatAreReadTwiceStayAsTheyAre) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{64, 64, 3, 3}));
  const ValueId w = graph.add_constant("w", noise({64, 64, 3, 3}, 3));
  const ValueId y = graph.output_of(
      graph.add_node("Conv", {x, w}, {"a"}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}, "a"));
  graph.outputs = {graph.output_of(graph.add_node("Add", {y, w}, {"y"}))};
  ASSERT_TRUE(infer_types(graph).has_value());
  const Plan plan = plan_of(graph);
  EXPECT_EQ(winograd_group(plan), nullptr);
  check_results(graph, plan, {Datum::of(noise({64, 64, 3, 3}, 7))});
}

TEST(Winograd, WeightsThatAreAResultAreRefused) {
  const Graph graph = model_of({.channels = 64, .filters = 64, .down = 28, .across = 28});
  Plan plan = plan_of(graph);
  ASSERT_NE(winograd_group(plan), nullptr);
  for (ValueId value : winograd_group(plan)->inputs) {
    if (plan.graph.value(value).name == "window.w") plan.graph.outputs.push_back(value);
  }
  ASSERT_EQ(plan.graph.outputs.size(), 2U);
  EXPECT_EQ(winograd_group(plan_of(plan.graph)), nullptr);
  auto lowered = lower_plan(plan, {});
  ASSERT_FALSE(lowered.has_value());
  EXPECT_NE(lowered.error().message.find("needs weights of its own"), std::string::npos)
      << lowered.error().message;
}

TEST(Winograd, LocksSayItAndAreRefusedWhereItIsForbidden) {
  Module module;
  module.graph = model_of({.channels = 64, .filters = 64, .down = 28, .across = 28});
  const CompileOptions options = allowing();
  auto lock = make_lock(module, options);
  ASSERT_TRUE(lock.has_value()) << lock.error().message;
  const std::string named = "schedule winograd \"precision-changing\" {";
  EXPECT_NE(lock->text.find(named), std::string::npos) << lock->text;
  LockOptions loading;
  auto plan = load_lock(lock->text, module, loading);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const std::vector<Datum> inputs{Datum::of(noise({1, 16, 28, 28}, 7))};
  EXPECT_EQ(simulated(*plan, inputs), simulated(plan_of(module.graph), inputs));
  loading.allow_precision_changing = false;
  auto refused = load_lock(lock->text, module, loading);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("precision-changing"), std::string::npos);
  // A tile of a size that there is not.
  std::string other = lock->text;
  const std::size_t at = other.find("output = ", other.find(named)) + 9;
  other[at] = '3';
  loading.allow_precision_changing = true;
  auto wrong = load_lock(other, module, loading);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message.find("has no tiles of this size"), std::string::npos)
      << wrong.error().message;
}

}  // namespace
}  // namespace xyntra
