// Attention over many keys: block by block, with sums that are corrected when a larger score comes along.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>

#include "compiler/lock.h"
#include "schedule/prepare/attention_parts.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Attention {
  std::int64_t heads, shared_heads;  // of queries; of keys and values
  Dim queries, keys;
  std::int64_t depth, columns;
  bool mask = false, causal = false;

  Graph graph() const {
    Graph graph;
    auto input = [&](const char* name, Shape shape) {
      return graph.add_input(name, Type::tensor(DType::F32, std::move(shape)));
    };
    std::vector<ValueId> inputs{input("q", {1, heads, queries, depth}),
                                input("k", {1, shared_heads, keys, depth}),
                                input("v", {1, shared_heads, keys, columns})};
    if (mask) inputs.push_back(input("mask", {queries, keys}));
    Attributes attributes;
    if (causal) attributes = {{"is_causal", std::int64_t{1}}};
    graph.outputs = {graph.output_of(graph.add_node("Attention", inputs, {"y"}, std::move(attributes)))};
    EXPECT_TRUE(infer_types(graph).has_value());
    return graph;
  }
};

Tensor numbers(const Dims& dims, std::uint32_t seed) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : tensor.mutable_view<float>()) {
    state = state * 1664525U + 1013904223U;
    value =
        static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 21);
  }
  return tensor;
}

std::vector<Datum> inputs_of(const Attention& attention, std::int64_t queries, std::int64_t keys) {
  std::vector<Datum> made{Datum::of(numbers({1, attention.heads, queries, attention.depth}, 1)),
                          Datum::of(numbers({1, attention.shared_heads, keys, attention.depth}, 2)),
                          Datum::of(numbers({1, attention.shared_heads, keys, attention.columns}, 3))};
  if (!attention.mask) return made;
  // Some queries see none of the first keys, more of them than a block has; one sees nothing at all.
  Tensor mask = numbers({queries, keys}, 4);
  auto values = mask.mutable_view<float>();
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      const bool hidden = (i % 3 == 1 && j < 300) || i == 7;
      if (hidden) values[static_cast<std::size_t>(i * keys + j)] = -kInfinity;
    }
  }
  made.push_back(Datum::of(std::move(mask)));
  return made;
}

Plan plan_for(const Attention& attention, const Target& target) {
  CompileOptions options;
  options.target = &target;
  auto plan = make_plan(attention.graph(), options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), std::isnan(expected[i])) << "element " << i;
    if (std::isnan(got[i]) || got[i] == expected[i]) continue;  // infinities have no distance
    ASSERT_NEAR(got[i], expected[i], 2e-5) << "element " << i;
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The largest score so far begins there, which nothing else does.
bool goes_by_blocks(const Plan& plan) {
  const auto text = kernels_of(plan);
  return text.has_value() && text->find("= -3.4028235e+38") != std::string::npos;
}

// Whole blocks; parts of blocks of both, and columns that fill no vector; heads that share keys; later keys unseen; columns
// that fill wide tiles, with a last block of queries that is smaller than the others, or begins earlier; keys
// that would leave too much of the blocks of wide tiles empty.
const Attention kFixed[] = {{1, 1, 96, 512, 8, 32},
                            {1, 1, 50, 700, 8, 20, true},
                            {2, 1, 64, 520, 8, 16, false, true},
                            {1, 1, 130, 600, 8, 8, false, true},
                            {2, 1, 160, 640, 8, 64},
                            {1, 1, 109, 590, 8, 128, true},
                            {1, 1, 100, 600, 8, 64, false, true},
                            {1, 1, 96, 530, 8, 64}};

// A line of four vectors takes fewer loads for as many products than one of two.
TEST(LongAttention, TilesAreAsWideAsColumnsFill) {
  auto has = [](const Attention& attention, const char* target, const char* tile) {
    const auto text = kernels_of(plan_for(attention, **find_target(target)));
    return text.has_value() && text->find(tile) != std::string::npos;
  };
  EXPECT_TRUE(has({1, 1, 4096, 4096, 64, 64}, "avx512", ": f32[6, 4, 16]"));
  EXPECT_TRUE(has({1, 1, 4096, 4096, 64, 64}, "avx512", ": f32[4, 4, 16]")) << "64 queries are left over";
  EXPECT_TRUE(has({1, 1, 4096, 4096, 80, 80}, "avx512", ": f32[12, 2, 16]"));
  EXPECT_TRUE(has({1, 1, 4096, 4096, 64, 64}, "avx2", ": f32[12, 2, 8]"));
}

// A bias that is looked up: its place is not known before its index is read, and keys fill no block.
TEST(LongAttention, BiasesMayBeLookedUp) {
  Graph graph;
  auto node = [&](const char* op, const std::vector<ValueId>& inputs, const char* name) {
    return graph.output_of(graph.add_node(op, inputs, {name}, {}));
  };
  const ValueId q = graph.add_input("q", Type::tensor(DType::F32, Shape{1, 1, 96, 16})),
                k = graph.add_input("k", Type::tensor(DType::F32, Shape{1, 1, 16, 520})),
                v = graph.add_input("v", Type::tensor(DType::F32, Shape{1, 1, 520, 16})),
                table = graph.add_input("table", Type::tensor(DType::F32, Shape{7})),
                index = graph.add_input("index", Type::tensor(DType::I64, Shape{520}));
  const ValueId scores = node("Add", {node("MatMul", {q, k}, "s"), node("Gather", {table, index}, "g")}, "a");
  graph.outputs = {node("MatMul", {node("Softmax", {scores}, "p"), v}, "y")};
  ASSERT_TRUE(infer_types(graph).has_value());
  CompileOptions options;
  options.target = *find_target("avx512");
  auto plan = make_plan(graph, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_TRUE(goes_by_blocks(*plan));
  Tensor places = *Tensor::allocate(DType::I64, {520});
  for (std::size_t i = 0; i < 520; ++i)
    places.mutable_view<std::int64_t>()[i] = static_cast<std::int64_t>(i % 14) - 7;
  const std::vector<Datum> inputs{
      Datum::of(numbers({1, 1, 96, 16}, 1)), Datum::of(numbers({1, 1, 16, 520}, 2)),
      Datum::of(numbers({1, 1, 520, 16}, 3)), Datum::of(numbers({7}, 4)), Datum::of(std::move(places))};
  expect_near(simulated(*plan, inputs), evaluated(*plan, inputs));
}

TEST(LongAttention, EveryTargetComputesTheSame) {
  for (const Attention& attention : kFixed) {
    SCOPED_TRACE(attention.keys.constant());
    const auto inputs = inputs_of(attention, attention.queries.constant(), attention.keys.constant());
    for (const char* name : {"avx2", "avx512", "neon"}) {
      SCOPED_TRACE(name);
      const Plan plan = plan_for(attention, **find_target(name));
      EXPECT_TRUE(goes_by_blocks(plan));
      expect_near(simulated(plan, inputs), evaluated(plan, inputs));
    }
  }
}

TEST(LongAttention, ThreadsChangeNoBit) {
  for (const Attention& attention : kFixed) {
    SCOPED_TRACE(attention.keys.constant());
    const auto inputs = inputs_of(attention, attention.queries.constant(), attention.keys.constant());
    const Plan plan = plan_for(attention, host_target());
    const std::vector<float> alone = executed(plan, inputs, 1);
    expect_near(alone, evaluated(plan, inputs));
    for (int threads : {2, 4}) EXPECT_TRUE(same_bits(executed(plan, inputs, threads), alone)) << threads;
  }
}

// Whoever comes with few keys or queries is served by rows of all scores.
TEST(LongAttention, SizesMayBeKnownOnlyWhenItRuns) {
  for (const bool causal : {false, true}) {
    const Attention attention{2, 2, Dim::symbol("s"), Dim::symbol("t"), 8, 16, !causal, causal};
    const Plan general = plan_for(attention, **find_target("avx512")),
               here = plan_for(attention, host_target());
    EXPECT_TRUE(goes_by_blocks(general));
    for (const auto& [queries, keys] :
         {std::pair{96, 512}, {97, 700}, {200, 745}, {5, 40}, {1, 600}, {130, 520}}) {
      SCOPED_TRACE(std::to_string(queries) + " x " + std::to_string(keys));
      const auto inputs = inputs_of(attention, queries, keys);
      const std::vector<float> expected = evaluated(general, inputs);
      expect_near(simulated(general, inputs), expected);
      expect_near(executed(here, inputs, 2), expected);
    }
  }
}

// Keys that nobody sees weigh nothing, but zero times infinity is no number: their blocks are not left out then.
TEST(LongAttention, UnseenValuesThatAreNotFiniteCount) {
  const Attention attention{1, 1, 600, 600, 8, 8, false, true};
  auto inputs = inputs_of(attention, 600, 600);
  inputs[2].tensor.mutable_view<float>()[599 * 8 + 3] = kInfinity;
  const Plan plan = plan_for(attention, host_target());
  const std::vector<float> expected = evaluated(plan, inputs);
  EXPECT_TRUE(std::isnan(expected[3]));
  expect_near(executed(plan, inputs, 1), expected);
}

// Three blocks of keys, and their scores for queries of ones.
struct GivenScores {
  static constexpr std::int64_t kQueries = 96, kKeys = 768;
  Attention attention{1, 1, kQueries, kKeys, 4, 16};
  std::vector<Datum> inputs = inputs_of(attention, kQueries, kKeys);

  explicit GivenScores(const std::function<float(std::int64_t key)>& score) {
    for (float& element : queries()) element = 1;
    auto keys = inputs[1].tensor.mutable_view<float>();
    for (std::int64_t j = 0; j < kKeys; ++j) {
      for (std::int64_t d = 0; d < 4; ++d) keys[static_cast<std::size_t>(j * 4 + d)] = score(j) / 2;
    }
  }
  std::span<float> queries() { return inputs[0].tensor.mutable_view<float>(); }
  std::span<float> values() { return inputs[2].tensor.mutable_view<float>(); }

  // Divided by `unit`, for distances are absolute.
  void expect_right(float unit = 1) const {
    const Plan plan = plan_for(attention, host_target());
    EXPECT_TRUE(goes_by_blocks(plan));
    std::vector<float> got = executed(plan, inputs, 1), expected = evaluated(plan, inputs);
    EXPECT_TRUE(same_bits(simulated(plan, inputs), got));
    for (auto* results : {&got, &expected}) {
      for (float& element : *results) element /= unit;
    }
    expect_near(got, expected);
  }
};

// Weights are made by the largest score of earlier blocks. Later scores that are far above it make them infinite, and far
// below, all of them zero.
TEST(LongAttention, ScoresMayGrowAndFall) {
  for (const float slope : {-1000.0F, -1.0F, 0.01F, 0.05F, 1.0F, 1e30F}) {
    SCOPED_TRACE(slope);
    GivenScores given([&](std::int64_t key) { return slope * static_cast<float>(key); });
    given.expect_right();
    for (std::size_t i = 0; i < given.queries().size(); ++i) given.queries()[i] = i / 4 % 2 == 0 ? -1 : 1;
    given.expect_right();
  }
}

// In the last block a score stands out, by more than weights may become large: for one query only, beside others that have
// no number as a score, whose sums compare with nothing.
TEST(LongAttention, OneScoreMayStandOut) {
  for (const float high : {20.0F, 200.0F, kInfinity, -kInfinity, std::nanf("")}) {
    SCOPED_TRACE(high);
    GivenScores given([&](std::int64_t key) { return key == 700 ? high : 0.0F; });
    for (std::size_t i = 4; i < given.queries().size(); ++i)
      given.queries()[i] = i % 12 == 0 ? std::nanf("") : 1e-3F;
    given.expect_right();
  }
}

// Weights of some 1e9 would make infinities of them.
TEST(LongAttention, ValuesMayBeLarge) {
  GivenScores given([](std::int64_t key) { return key < 256 ? 0.0F : 21.0F; });
  for (float& value : given.values()) value *= 1e36F;
  given.expect_right(1e36F);
  given.values()[5] = kInfinity;
  given.values()[16 * 300 + 7] = -kInfinity;
  given.values()[16 * 300 + 9] = std::nanf("");
  given.expect_right(1e36F);
}

// Their sum is infinite where their mean is not: with equal scores, whether these are small or large; and with one that stands
// out of others that are large.
TEST(LongAttention, ValuesMayAddUpToInfinity) {
  for (const float score : {0.0F, 1e30F}) {
    SCOPED_TRACE(score);
    GivenScores given([&](std::int64_t key) { return key == 700 ? score + 3 : score; });
    for (float& value : given.values())
      value = std::copysign(1e38F + 1e37F * std::abs(value), value < 2 ? 1.0F : value);
    given.expect_right(1e38F);
    given.values()[16 * 10 + 2] = kInfinity;
    given.values()[16 * 300 + 7] = -kInfinity;
    given.values()[16 * 700 + 9] = std::nanf("");
    given.expect_right(1e38F);
  }
}

// The same with few keys, in rows of scores, with sizes known and not, and by workgroups.
TEST(Attention, ValuesMayAddUpToInfinity) {
  const Attention known{1, 1, 40, 300, 8, 16}, unknown{1, 1, Dim::symbol("s"), Dim::symbol("t"), 8, 16};
  for (const Attention& attention : {known, unknown}) {
    auto inputs = inputs_of(attention, 40, 300);
    for (float& value : inputs[2].tensor.mutable_view<float>()) value = 1e38F + 1e37F * value;
    for (const char* name : {"avx2", "avx512", "neon", "webgpu"}) {
      SCOPED_TRACE(name);
      const Plan plan = plan_for(attention, **find_target(name));
      std::vector<float> got = simulated(plan, inputs), expected = evaluated(plan, inputs);
      for (auto* results : {&got, &expected}) {
        for (float& element : *results) element /= 1e38F;
      }
      expect_near(got, expected);
    }
  }
}

// By rows of scores, by blocks of keys and by workgroups; what the mask adds is -inf, or the scores are.
TEST(Attention, QueriesThatSeeNoKeyAreZero) {
  constexpr std::size_t kColumns = 16, kHidden = 7;
  for (const auto& [queries, keys] : {std::pair{40, 300}, {96, 520}}) {
    const Attention attention{2, 1, queries, keys, 8, kColumns, true};
    const auto inputs = inputs_of(attention, queries, keys);
    for (const char* name : {"avx2", "avx512", "neon", "webgpu", "webgpu_software", "h100"}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(keys));
      const Plan plan = plan_for(attention, **find_target(name));
      const std::vector<float> got = simulated(plan, inputs);
      expect_near(got, evaluated(plan, inputs));
      for (std::size_t c = 0; c < kColumns; ++c) ASSERT_EQ(got[kHidden * kColumns + c], 0) << c;
      for (const float element : got) ASSERT_FALSE(std::isnan(element));
    }
  }
}

// Weights below 1e-33 of the largest count as zero, but for infinite values, whose product with zero is no number. What such
// weights were summed by before a larger score came along, too.
TEST(LongAttention, SmallWeightsTimesInfinityAreInfinite) {
  for (const bool growing : {false, true}) {
    SCOPED_TRACE(growing);
    GivenScores given([&](std::int64_t key) { return (key < 384) == growing ? -95.0F : 0.0F; });
    given.expect_right();
    given.values()[16 * (growing ? 100 : 600) + 3] = kInfinity;
    given.values()[16 * (growing ? 101 : 601) + 4] = -kInfinity;
    const Plan plan = plan_for(given.attention, host_target());
    EXPECT_EQ(evaluated(plan, given.inputs)[3], kInfinity);
    given.expect_right();
  }
}

// ---- f32 by a bf16x3 split on tiles of bf16

bool is_split(const Plan& plan) {
  const auto text = kernels_of(plan);
  return text.has_value() && text->find("split_bf16x3") != std::string::npos;
}

// Sums as long as one step and two; blocks of queries and keys that do not come out even; masks; shared heads; later keys unseen.
const Attention kSplit[] = {{1, 1, 256, 512, 32, 64},
                            {1, 1, 290, 590, 64, 64, true},
                            {4, 1, 64, 640, 32, 64, false, true},
                            {1, 1, 260, 512, 32, 128}};

// softmax(q kᵀ / √d) v in float64, of one head without a mask.
std::vector<double> in_doubles(const Attention& attention, const std::vector<Datum>& inputs) {
  const auto q = inputs[0].tensor.view<float>(), k = inputs[1].tensor.view<float>(),
             v = inputs[2].tensor.view<float>();
  const auto depth = static_cast<std::size_t>(attention.depth),
             columns = static_cast<std::size_t>(attention.columns);
  std::vector<double> made;
  for (std::size_t i = 0; i < q.size() / depth; ++i) {
    std::vector<double> weights(k.size() / depth), result(columns);
    double total = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      double score = 0;
      for (std::size_t d = 0; d < depth; ++d)
        score += static_cast<double>(q[i * depth + d]) * static_cast<double>(k[j * depth + d]);
      total += weights[j] = std::exp(score / std::sqrt(static_cast<double>(depth)));
      for (std::size_t c = 0; c < columns; ++c)
        result[c] += weights[j] * static_cast<double>(v[j * columns + c]);
    }
    for (double element : result) made.push_back(element / total);
  }
  return made;
}

double largest_error(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::abs(static_cast<double>(got[i]) - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return error / largest;
}

bool has_tiles() { return host_target().name == (*find_target("amx"))->name; }
// Where there are tiles, on them: it takes less time, and the first test shows that bits are the same.
std::vector<float> split_results(const Plan& plan, const std::vector<Datum>& inputs) {
  return has_tiles() ? executed(plan, inputs, 1) : simulated(plan, inputs);
}

TEST(AttentionBf16x3, IsWhatFormulasSay) {
  const Target& amx = **find_target("amx");
  for (const Attention& attention : kSplit) {
    SCOPED_TRACE(attention.keys.constant());
    const auto inputs = inputs_of(attention, attention.queries.constant(), attention.keys.constant());
    const Plan plan = plan_for(attention, amx);
    EXPECT_TRUE(is_split(plan));
    const std::vector<float> got = simulated(plan, inputs);
    expect_near(got, evaluated(plan, inputs));
    if (!has_tiles()) continue;
    for (int threads : {1, 2}) EXPECT_TRUE(same_bits(executed(plan, inputs, threads), got)) << threads;
  }
}

// A split in two instead of three would be off by 1e-5, sums of bf16 by 1e-3.
TEST(AttentionBf16x3, HasTheNumericalErrorOfF32) {
  const Attention attention{1, 1, 256, 512, 64, 64};
  auto inputs = inputs_of(attention, 256, 512);
  for (const float scale : {1.0F, 1e-37F}) {
    for (float& value : inputs[2].tensor.mutable_view<float>()) value *= scale;
    const std::vector<double> expected = in_doubles(attention, inputs);
    const double split = largest_error(split_results(plan_for(attention, **find_target("amx")), inputs),
                                       expected),
                 whole =
                     largest_error(simulated(plan_for(attention, **find_target("avx512")), inputs), expected);
    EXPECT_LE(split, 1.2 * whole) << scale;
    EXPECT_LE(split, 3e-6) << scale;
  }
}

// Factors that are too large for it, or no numbers, are multiplied as they are.
TEST(AttentionBf16x3, LargeFactorsStayWhole) {
  const Attention attention{1, 1, 256, 512, 32, 64};
  const Plan plan = plan_for(attention, **find_target("amx"));
  const float kHuge = 3e38F;
  for (const auto& [input, element] : {std::pair<std::size_t, float>{0, kHuge},
                                       {0, -kInfinity},
                                       {1, kHuge},
                                       {1, kInfinity},
                                       {1, std::nanf("")},
                                       {2, kHuge},
                                       {2, -kInfinity}}) {
    SCOPED_TRACE(std::to_string(input) + " " + std::to_string(element));
    auto inputs = inputs_of(attention, 256, 512);
    for (std::size_t other = 0; other < 2 && element == kHuge; ++other) {
      for (float& value : inputs[other].tensor.mutable_view<float>()) value = value * 1e-38F;
    }
    inputs[input].tensor.mutable_view<float>()[40] = element;
    std::vector<float> got = split_results(plan, inputs), expected = evaluated(plan, inputs);
    for (auto* results : {&got, &expected}) {
      for (float& one : *results) one = input == 2 && element == kHuge ? one / kHuge : one;
    }
    expect_near(got, expected);
  }
}

// Shifts that are chosen anew, and weights that are far apart.
TEST(AttentionBf16x3, ScoresMayGrowAndFall) {
  const Attention attention{1, 1, 256, 512, 32, 64, true};
  const Plan plan = plan_for(attention, **find_target("amx"));
  EXPECT_TRUE(is_split(plan));
  auto inputs = inputs_of(attention, 256, 512);
  for (float& value : inputs[2].tensor.mutable_view<float>())
    value *= 0.1F;  // scores of 512 have little precision
  for (const float slope : {-1.0F, 0.05F, 1.0F, 100.0F}) {
    SCOPED_TRACE(slope);
    auto mask = inputs[3].tensor.mutable_view<float>();
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = slope * static_cast<float>(i % 512);
    expect_near(split_results(plan, inputs), evaluated(plan, inputs));
  }
}

TEST(AttentionBf16x3, KeysMayBeCountedWhenItRuns) {
  const Attention attention{1, 1, 256, Dim::symbol("t"), 32, 64};
  const Plan plan = plan_for(attention, **find_target("amx"));
  EXPECT_TRUE(is_split(plan));
  for (const int keys : {512, 600, 40}) {
    SCOPED_TRACE(keys);
    const auto inputs = inputs_of(attention, 256, keys);
    expect_near(split_results(plan, inputs), evaluated(plan, inputs));
  }
}

// What is lost below the smallest numbers is seen where scores are steep, and may be where nobody knows how steep they are.
TEST(AttentionBf16x3, ScoresMayNotBeSteep) {
  const te::Expr sum = te::Expr::accumulator(DType::F32);
  auto number = [](double value) { return te::Expr::number(DType::F32, value); };
  const te::Expr data = te::Expr::load(te::BufferId(0), DType::F32, {});
  EXPECT_EQ(steepness(sum * number(-0.125) + data), 0.125);
  EXPECT_EQ(steepness(number(50) * tanh(sum / number(25))), 2);
  EXPECT_EQ(steepness(te::select(data < number(0), sum * number(1e30), number(0))), 1e30F);
  EXPECT_EQ(steepness(sum * data), std::nullopt);
  EXPECT_EQ(steepness(sum / number(0)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(steepness(exp(sum)), std::nullopt);
}

// Splitting keys takes time that few queries do not give back; sums go in steps of 32.
TEST(AttentionBf16x3, IsForManyQueriesAndWholeSteps) {
  const Target& amx = **find_target("amx");
  EXPECT_TRUE(is_split(plan_for({1, 1, 256, 512, 64, 64}, amx)));
  EXPECT_TRUE(is_split(plan_for({2, 1, 128, 512, 64, 64}, amx))) << "heads that share keys";
  EXPECT_FALSE(is_split(plan_for({1, 1, 128, 512, 64, 64}, amx)));
  EXPECT_FALSE(is_split(plan_for({1, 1, Dim::symbol("s"), 512, 64, 64}, amx)));
  EXPECT_FALSE(is_split(plan_for({1, 1, 256, 512, 48, 64}, amx)));
  EXPECT_FALSE(is_split(plan_for({1, 1, 256, 512, 64, 80}, amx)));
  EXPECT_FALSE(is_split(plan_for({1, 1, 256, 512, 0, 64}, amx))) << "scores of nothing";
  EXPECT_FALSE(is_split(plan_for({1, 1, 256, 512, 64, 0}, amx))) << "values of nothing";
  EXPECT_FALSE(is_split(plan_for({1, 1, 256, 512, 64, 64}, **find_target("avx512"))));
}

}  // namespace
}  // namespace xyntra
