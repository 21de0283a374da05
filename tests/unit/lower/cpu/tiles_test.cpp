// Matmuls rounded to bf16, on tiles: what the plan says, and that every backend computes the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/lock.h"
#include "ir/text.h"
#include "target/tiles.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

Tensor numbers(const Dims& dims, int seed) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  auto bytes = tensor.mutable_bytes();
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761U + 1;
  for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    state = state * 1664525U + 1013904223U;
    const float value =
        static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 22);
    std::memcpy(&bytes[i], &value, sizeof value);
  }
  return tensor;
}

// relu(x w + b), the weights given.
Graph layer(const Dim& rows, std::int64_t depth, std::int64_t columns) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{rows, depth}));
  const ValueId w = graph.add_constant("w", numbers({depth, columns}, 1));
  const ValueId b = graph.add_constant("b", numbers({columns}, 2));
  const ValueId p = graph.output_of(graph.add_node("MatMul", {x, w}, {"p"}, {}, "product"));
  const ValueId s = graph.output_of(graph.add_node("Add", {p, b}, {"s"}));
  graph.outputs = {graph.output_of(graph.add_node("Relu", {s}, {"y"}))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

CompileOptions rounding(const char* target) {
  CompileOptions options;
  options.target = *find_target(target);
  options.precision = Precision::Bf16;
  return options;
}

Plan plan_of(const Graph& graph, const char* target, const SymbolBindings& nominal = {}) {
  CompileOptions options = rounding(target);
  options.fusion.choose.nominal = nominal;
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

bool has_tiles_here() { return host_target().name == "amx" && allow_tiles().has_value(); }

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 1e-3 + 1e-4 * std::abs(expected[i])) << "element " << i;
}

bool uses_tiles(const Plan& plan) {
  const auto text = kernels_of(plan);
  return text.has_value() && text->find("tile_multiply_bf16") != std::string::npos;
}

TEST(Tiles, ComputeWhatTheRoundedFormulaSays) {
  struct Case {
    std::int64_t rows, depth, columns;
  };
  // Whole tiles; rows and columns that fill none; long sums; depths that leave some over, and such as fill no step. Blocks of
  // rows by the group, whose results are made while the next ones are multiplied: more rows than steps, and fewer.
  for (const Case& c : {Case{64, 64, 64}, Case{37, 96, 50}, Case{5, 32, 16}, Case{1, 96, 50}, Case{1, 40, 64},
                        Case{50, 1088, 33}, Case{33, 72, 40}, Case{70, 24, 64}, Case{48, 16, 33},
                        Case{256, 32, 32}, Case{300, 160, 64}, Case{100, 1088, 32}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " " + std::to_string(c.depth) + " " + std::to_string(c.columns));
    const Plan plan = plan_of(layer(c.rows, c.depth, c.columns), "amx");
    EXPECT_EQ(plan.groups.size(), 1U);
    EXPECT_TRUE(uses_tiles(plan));
    const std::vector<Datum> inputs{Datum::of(numbers({c.rows, c.depth}, 3))};
    const std::vector<float> in_tiles = simulated(plan, inputs);
    expect_near(in_tiles, evaluated(plan, inputs));
    if (!has_tiles_here()) continue;
    EXPECT_EQ(executed(plan, inputs, 1), in_tiles);
    EXPECT_EQ(executed(plan, inputs, 2), in_tiles);
  }
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The rows of packed factors are not kept in L1, and neither are panels beyond the first 16 steps: kernels with one block.
TEST(Tiles, LeaveTheInnermostCacheToWhatIsReadAgainSoon) {
  auto loads = [](std::int64_t depth) {
    const std::string text = *kernels_of(plan_of(layer(32, depth, 32), "amx"));
    return std::pair(times(text, "tile_load_rows("), times(text, "tile_load_rows_l2("));
  };
  EXPECT_EQ(loads(256), std::pair(std::size_t{4}, std::size_t{0}));  // rows and panels stay
  EXPECT_EQ(loads(512), std::pair(std::size_t{2}, std::size_t{2}));  // panels stay
  EXPECT_EQ(loads(1024), std::pair(std::size_t{2}, std::size_t{6}));  // half of them do
}

// The result of long sums, beyond L2, is not read into it before it is overwritten; an input beyond it is
// asked for early.
TEST(Tiles, MoveLargeMatricesPastTheCaches) {
  struct Case {
    std::int64_t rows, depth, columns;
    bool result, input;
  };
  for (const Case& c : {Case{64, 64, 64, false, false}, Case{520, 32, 1088, false, false},
                        Case{520, 512, 1088, true, false}, Case{1040, 544, 32, false, true}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " " + std::to_string(c.depth) + " " + std::to_string(c.columns));
    const Plan plan = plan_of(layer(c.rows, c.depth, c.columns), "amx");
    const std::string text = *kernels_of(plan);
    EXPECT_EQ(times(text, "stream ") > 0, c.result);
    EXPECT_EQ(times(text, "prefetch(") > 0, c.input);
    if (c.result) continue;  // the simulator would take long
    const std::vector<Datum> inputs{Datum::of(numbers({c.rows, c.depth}, 3))};
    const std::vector<float> in_tiles = simulated(plan, inputs);
    expect_near(in_tiles, evaluated(plan, inputs));
    if (!has_tiles_here()) continue;
    EXPECT_EQ(executed(plan, inputs, 2), in_tiles);
  }
}

TEST(Tiles, TakeAnyNumberOfRows) {
  const Plan plan = plan_of(layer(Dim::symbol("n"), 64, 48), "amx");
  EXPECT_TRUE(uses_tiles(plan));
  for (std::int64_t rows : {1, 7, 15, 16, 17, 31, 32, 33, 47, 64, 100, 300}) {
    SCOPED_TRACE(rows);
    const std::vector<Datum> inputs{Datum::of(numbers({rows, 64}, 4))};
    const std::vector<float> in_tiles = simulated(plan, inputs);
    expect_near(in_tiles, evaluated(plan, inputs));
    if (!has_tiles_here()) continue;
    EXPECT_EQ(executed(plan, inputs, 2), in_tiles);
  }
}

// Two convolutions, so that what lies between them is rounded where it is made and read with its channels innermost.
TEST(Tiles, ConvolutionsAreMatmulsOverWindows) {
  struct Case {
    std::int64_t size, window, stride, pad;
  };
  // Lines that fill tiles, and lines of a few pixels that are walked as one; stride 2; no window, no padding.
  for (const Case& c : {Case{9, 3, 1, 1}, Case{14, 3, 2, 1}, Case{20, 1, 1, 0}, Case{8, 1, 2, 0},
                        Case{7, 3, 1, 1}, Case{33, 3, 1, 1}, Case{64, 3, 2, 1}, Case{12, 5, 1, 0}}) {
    SCOPED_TRACE(std::to_string(c.size) + " " + std::to_string(c.window) + " " + std::to_string(c.stride));
    Graph graph;
    const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 32, c.size, c.size}));
    const ValueId w = graph.add_constant("w", numbers({48, 32, c.window, c.window}, 1));
    const ValueId v = graph.add_constant("v", numbers({32, 48, 1, 1}, 2));
    const std::vector<std::int64_t> strides{c.stride, c.stride}, pads(4, c.pad);
    const ValueId p =
        graph.output_of(graph.add_node("Conv", {x, w}, {"p"}, {{"strides", strides}, {"pads", pads}}));
    const ValueId r = graph.output_of(graph.add_node("Relu", {p}, {"r"}));
    graph.outputs = {graph.output_of(graph.add_node("Conv", {r, v}, {"y"}))};
    ASSERT_TRUE(infer_types(graph).has_value());
    const Plan plan = plan_of(graph, "amx");
    EXPECT_TRUE(uses_tiles(plan));
    const std::vector<Datum> inputs{Datum::of(numbers({1, 32, c.size, c.size}, 3))};
    const std::vector<float> in_tiles = simulated(plan, inputs), expected = evaluated(plan, inputs);
    ASSERT_EQ(in_tiles.size(), expected.size());
    // What lies between is rounded: a sum in another order may fall to the other side.
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(in_tiles[i], expected[i], 1.5) << "element " << i;
    if (!has_tiles_here()) continue;
    EXPECT_EQ(executed(plan, inputs, 2), in_tiles);
  }
}

// An image of few channels: lines of its window are what is summed along. The image is laid out by a launch of its own.
TEST(Tiles, WindowsOverFewChannelsAreFlattened) {
  struct Case {
    std::int64_t channels, size, window, stride, pad;
  };
  for (const Case& c :
       {Case{3, 32, 7, 2, 3}, Case{3, 40, 5, 1, 2}, Case{2, 21, 8, 4, 0}, Case{3, 16, 16, 16, 0}}) {
    SCOPED_TRACE(std::to_string(c.channels) + " " + std::to_string(c.size) + " " + std::to_string(c.window));
    Graph graph;
    const Dims dims{2, c.channels, c.size, c.size};
    const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{2, c.channels, c.size, c.size}));
    const ValueId w = graph.add_constant("w", numbers({32, c.channels, c.window, c.window}, 1));
    const std::vector<std::int64_t> strides{c.stride, c.stride}, pads(4, c.pad);
    const ValueId p = graph.output_of(
        graph.add_node("Conv", {x, w}, {"p"}, {{"strides", strides}, {"pads", pads}}, "first"));
    graph.outputs = {graph.output_of(graph.add_node("Relu", {p}, {"y"}))};
    ASSERT_TRUE(infer_types(graph).has_value());
    const Plan plan = plan_of(graph, "amx");
    EXPECT_TRUE(uses_tiles(plan));
    EXPECT_EQ(plan.groups.size(), 2U);
    EXPECT_EQ(plan.certificate[0].rule, "flatten-windows");
    EXPECT_EQ(plan.certificate[0].exactness, Exactness::Reassociating);
    const std::vector<Datum> inputs{Datum::of(numbers(dims, 3))};
    const std::vector<float> in_tiles = simulated(plan, inputs);
    expect_near(in_tiles, evaluated(plan, inputs));
    expect_near(in_tiles, evaluated(plan_of(graph, "avx512"), inputs));  // the same sums, flat or not
    if (!has_tiles_here()) continue;
    EXPECT_EQ(executed(plan, inputs, 2), in_tiles);
  }
}

TEST(Tiles, WhereThereAreNoneTheSumsAreTheSame) {
  const std::vector<Datum> inputs{Datum::of(numbers({40, 64}, 5))};
  const std::vector<float> expected = evaluated(plan_of(layer(40, 64, 48), "amx"), inputs);
  for (const char* target : {"avx512", "avx2", "neon", "generic"}) {
    SCOPED_TRACE(target);
    const Plan plan = plan_of(layer(40, 64, 48), target);
    EXPECT_FALSE(uses_tiles(plan));
    expect_near(simulated(plan, inputs), expected);
  }
}

TEST(Tiles, ThePlanSaysWhatWasRounded) {
  const Plan plan = plan_of(layer(40, 64, 48), "amx");
  ASSERT_EQ(plan.certificate.size(), 1U);
  EXPECT_EQ(plan.certificate[0].rule, "round-matmuls");
  EXPECT_EQ(plan.certificate[0].exactness, Exactness::PrecisionChanging);
  EXPECT_EQ(plan.certificate[0].origins, std::vector<std::string>{"product"});
  CompileOptions exact = rounding("amx");
  exact.precision = Precision::F32;
  EXPECT_NE(configuration_text(exact), configuration_text(rounding("amx")));
}

// gelu(x w) w', the function in the form asked for.
Graph two_layers(const std::string& form) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{40, 64}));
  const ValueId w = graph.add_constant("w", numbers({64, 48}, 1));
  const ValueId v = graph.add_constant("v", numbers({48, 32}, 2));
  const ValueId p = graph.output_of(graph.add_node("MatMul", {x, w}, {"p"}));
  const ValueId g = graph.output_of(graph.add_node("Gelu", {p}, {"g"}, {{"approximate", form}}, "function"));
  graph.outputs = {graph.output_of(graph.add_node("MatMul", {g, v}, {"y"}))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

TEST(Tiles, AFunctionThatIsRoundedIsComputedToAsManyBits) {
  const std::vector<Datum> inputs{Datum::of(numbers({40, 64}, 3))};
  for (const char* form : {"none", "tanh"}) {
    SCOPED_TRACE(form);
    const Plan plan = plan_of(two_layers(form), "amx");
    const auto short_gelu = std::find_if(plan.certificate.begin(), plan.certificate.end(),
                                         [](const auto& line) { return line.rule == "short-gelu"; });
    ASSERT_NE(short_gelu, plan.certificate.end());
    EXPECT_EQ(short_gelu->exactness, Exactness::PrecisionChanging);
    EXPECT_EQ(short_gelu->origins, std::vector<std::string>{"function"});
    const std::vector<float> in_tiles = simulated(plan, inputs);
    expect_near(in_tiles, evaluated(plan, inputs));
    if (!has_tiles_here()) continue;
    EXPECT_EQ(executed(plan, inputs, 1), in_tiles);
  }
}

TEST(Tiles, TheShortFunctionsStayNear) {
  constexpr std::int64_t kCount = 40001;  // from -20 to 20
  Tensor x = *Tensor::allocate(DType::F32, {kCount});
  auto values = x.mutable_view<float>();
  for (std::size_t i = 0; i < kCount; ++i) values[i] = (static_cast<float>(i) - 20000.F) / 1000.F;
  for (const bool tanh : {false, true}) {
    Graph graph;
    const ValueId in = graph.add_input("x", Type::tensor(DType::F32, Shape{kCount}));
    const std::string form = tanh ? "short tanh" : "short";
    graph.outputs = {graph.output_of(graph.add_node("Gelu", {in}, {"y"}, {{"approximate", form}}))};
    ASSERT_TRUE(infer_types(graph).has_value());
    const std::vector<float> got = evaluated(plan_of(graph, "amx"), {Datum::of(x)});
    for (std::size_t i = 0; i < kCount; ++i) {
      const double at = values[i];
      const double cube = at + 0.044715 * at * at * at;
      const double expected =
          at / 2 * (1 + (tanh ? std::tanh(0.7978845608028654 * cube) : std::erf(at / std::sqrt(2.))));
      ASSERT_NEAR(got[i], expected, 5e-5) << form << " of " << at;
    }
    EXPECT_EQ(got.front(), 0);
    EXPECT_EQ(got.back(), 20);
  }
}

// Queries that fill blocks, that leave a tile or part of one over, and that fill no tile.
TEST(Tiles, BothMatmulsOfAttentionTakeThem) {
  const Plan general = plan_of(packed_heads(Dim::symbol("s")), "amx", {{"s", 64}});
  EXPECT_EQ(general.groups.size(), 1U);
  EXPECT_TRUE(uses_tiles(general));
  for (const std::int64_t queries : {64, 96, 33, 53, 16, 7}) {
    SCOPED_TRACE(queries);
    const std::vector<Datum> inputs{Datum::of(numbers({queries, 192}, 3)),
                                    Datum::of(numbers({queries, queries}, 4))};
    const Plan fixed = plan_of(packed_heads(queries), "amx");
    EXPECT_EQ(uses_tiles(fixed), queries >= 16);
    const std::vector<float> expected = evaluated(fixed, inputs);
    for (const Plan* plan : {&general, &fixed}) {
      const std::vector<float> in_tiles = simulated(*plan, inputs);
      ASSERT_EQ(in_tiles.size(), expected.size());
      // Weights are rounded before they are divided by their sum: not the bits of the formula.
      for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(in_tiles[i], expected[i], 0.02) << i;
      if (!has_tiles_here()) continue;
      EXPECT_EQ(executed(*plan, inputs, 1), executed(*plan, inputs, 3));
      const std::vector<float> here = executed(*plan, inputs, 1);
      for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(here[i], in_tiles[i], 1e-4) << i;
    }
  }
}

// What a convolution rounds is read rounded by who adds it as well: it lies in memory once, in half the bytes.
TEST(Tiles, FeatureMapsLieInMemoryRounded) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 32, 12, 12}));
  auto convolved = [&](ValueId image, const std::string& name, int seed) {
    const ValueId w = graph.add_constant(name + ".w", numbers({32, 32, 1, 1}, seed));
    const ValueId made = graph.output_of(graph.add_node("Conv", {image, w}, {name + ".c"}));
    return graph.output_of(graph.add_node("Relu", {made}, {name}, {}, name));
  };
  const ValueId a = convolved(x, "a", 1), b = convolved(a, "b", 2);
  graph.outputs = {convolved(graph.output_of(graph.add_node("Add", {a, b}, {"sum"}, {}, "sum")), "c", 3)};
  ASSERT_TRUE(infer_types(graph).has_value());
  const Plan plan = plan_of(graph, "amx");
  std::vector<std::string> said;
  for (const CertificateLine& line : plan.certificate) {
    if (line.rule != "round-feature-maps") continue;
    EXPECT_EQ(line.exactness, Exactness::PrecisionChanging);
    said.insert(said.end(), line.origins.begin(), line.origins.end());
  }
  EXPECT_EQ(said, std::vector<std::string>{"a"});
  for (const Group& group : plan.groups) {
    for (ValueId made : group.outputs) {
      const Value& value = plan.graph.value(made);
      EXPECT_EQ(value.type.dtype, value.name == "c" ? DType::F32 : DType::BF16) << value.name;
    }
  }
  const std::vector<Datum> inputs{Datum::of(numbers({1, 32, 12, 12}, 4))};
  const std::vector<float> in_tiles = simulated(plan, inputs), expected = evaluated(plan, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(in_tiles[i], expected[i], 1.5 + 0.01 * std::abs(expected[i])) << "element " << i;
  if (has_tiles_here()) {
    EXPECT_EQ(executed(plan, inputs, 2), in_tiles);
  }
}

TEST(Tiles, ALockRoundsTheWeightsAgain) {
  Module model;
  model.graph = layer(40, 64, 48);
  const auto made = make_lock(model, rounding("amx"));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_NE(made->text.find("round-matmuls"), std::string::npos);
  const auto loaded = load_lock(made->text, model);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  const std::vector<Datum> inputs{Datum::of(numbers({40, 64}, 6))};
  EXPECT_EQ(evaluated(*loaded, inputs), evaluated(made->plan, inputs));
  LockOptions strict;
  strict.allow_precision_changing = false;
  const auto refused = load_lock(made->text, model, strict);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("precision-changing"), std::string::npos);
}

}  // namespace
}  // namespace xyntra
