// Split-float GEMM: f32 from a bf16x3 split of each factor. What the plan says, that every backend computes the same, and the numerical error.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/lock.h"
#include "schedule/contraction/part_products.h"
#include "target/tiles.h"
#include "types/float_formats.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

// Numbers of full precision, some of them small.
Tensor spread_numbers(const Dims& dims, std::uint32_t seed) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : tensor.mutable_view<float>()) {
    state = state * 1664525U + 1013904223U;
    const double mantissa = static_cast<double>(state >> 4) / (1 << 27) - 1;
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(std::ldexp(mantissa, -static_cast<int>(state >> 29)));
  }
  return tensor;
}

struct Layer {
  Dim rows = 64;
  std::int64_t depth = 64, columns = 64;
  bool transposed = false;  // the weight is [n, k], for Gemm
  bool normed = false;  // rows are normed first
};

ValueId matmul_of(Graph& graph, ValueId x, const Layer& layer, Tensor weights) {
  const ValueId w = graph.add_constant("w", std::move(weights));
  if (!layer.transposed) return graph.output_of(graph.add_node("MatMul", {x, w}, {"p"}, {}, "product"));
  return graph.output_of(graph.add_node("Gemm", {x, w}, {"p"}, {{"transB", std::int64_t{1}}}, "product"));
}

Dims weight_dims(const Layer& layer) {
  return layer.transposed ? Dims{layer.columns, layer.depth} : Dims{layer.depth, layer.columns};
}

// gelu(norm(x) w + b)
Graph model_of(const Layer& layer) {
  Graph graph;
  ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{layer.rows, layer.depth}));
  if (layer.normed) {
    const ValueId scale = graph.add_constant("scale", spread_numbers({layer.depth}, 3));
    x = graph.output_of(graph.add_node("LayerNormalization", {x, scale}, {"normed"}));
  }
  const ValueId p = matmul_of(graph, x, layer, spread_numbers(weight_dims(layer), 1));
  const ValueId b = graph.add_constant("b", spread_numbers({layer.columns}, 2));
  const ValueId s = graph.output_of(graph.add_node("Add", {p, b}, {"s"}));
  graph.outputs = {graph.output_of(graph.add_node("Gelu", {s}, {"y"}))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

CompileOptions bf16x3(const char* target = "amx") {
  CompileOptions options;
  options.target = *find_target(target);
  options.precision = Precision::Bf16x3;
  options.fusion.choose.nominal = {{"m", 64}};
  return options;
}

Plan plan_for(const Graph& graph, const CompileOptions& options = bf16x3()) {
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

const Group* bf16x3_group(const Plan& plan) {
  for (const Group& group : plan.groups) {
    if (group.schedule.kind == ScheduleKind::Bf16x3) return &group;
  }
  return nullptr;
}

bool has_tiles_here() { return host_target().name == "amx" && allow_tiles().has_value(); }

// The root of the mean square of errors, as a share of that of the elements.
double error_of(const std::vector<float>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double errors = 0, all = 0;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    errors += std::pow(got[i] - expected[i], 2);
    all += std::pow(expected[i], 2);
  }
  return std::sqrt(errors / all);
}

void check(const Layer& layer, std::int64_t rows) {
  SCOPED_TRACE(std::to_string(rows) + " " + std::to_string(layer.depth) + " " +
               std::to_string(layer.columns));
  const Graph graph = model_of(layer);
  const Plan plan = plan_for(graph);
  ASSERT_NE(bf16x3_group(plan), nullptr);
  const std::vector<Datum> inputs{Datum::of(spread_numbers({rows, layer.depth}, 7))};
  const std::vector<double> truth = exact(graph, inputs);
  EXPECT_LT(error_of(evaluated(plan, inputs), truth), 4e-6);  // one long sum
  auto lowered = lower_plan(plan, {});
  ASSERT_TRUE(lowered.has_value());
  for (const RefusedForm& form : lowered->refused) ADD_FAILURE() << form.form << ": " << form.reason;
  const std::vector<float> made = simulated(plan, inputs);
  EXPECT_LT(error_of(made, truth), 2.5e-7);
  if (!has_tiles_here()) return;
  for (int threads : {1, 2, 4}) EXPECT_EQ(executed(plan, inputs, threads), made) << threads << " threads";
}

TEST(Bf16x3, EveryBackendComputesTheSame) {
  check({}, 64);
  check({.rows = 37, .depth = 96, .columns = 50}, 37);  // rows and columns that fill no tile
  check({.rows = 100, .depth = 1088, .columns = 33}, 100);
  check({.rows = 48, .depth = 2048, .columns = 40, .normed = true}, 48);  // sums in two stretches
  check({.rows = 300, .depth = 32, .columns = 96, .transposed = true}, 300);
  check({.rows = 64, .depth = 96, .columns = 64, .normed = true}, 64);
  check({.rows = 45, .depth = 64, .columns = 48, .transposed = true, .normed = true}, 45);
}

TEST(Bf16x3, TakeAnyNumberOfRows) {
  for (std::int64_t rows : {1, 15, 16, 33, 200}) {
    check({.rows = Dim::symbol("m"), .depth = 64, .columns = 64}, rows);
    check({.rows = Dim::symbol("m"), .depth = 96, .columns = 40, .normed = true}, rows);
  }
}

// Two loops count along the sum: heads, and what each of them gives.
TEST(Bf16x3, HeadsAreReadWhereTheyLie) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{4, 48, 32}));
  const std::vector<std::int64_t> order{1, 0, 2};
  const ValueId transposed =
      graph.output_of(graph.add_node("Transpose", {x}, {"transposed"}, {{"perm", order}}));
  Tensor sizes = *Tensor::allocate(DType::I64, {2});
  sizes.mutable_view<std::int64_t>()[0] = 48;
  sizes.mutable_view<std::int64_t>()[1] = 128;
  const ValueId rows =
      graph.output_of(graph.add_node("Reshape", {transposed, graph.add_constant("sizes", sizes)}, {"rows"}));
  graph.outputs = {matmul_of(graph, rows, {}, spread_numbers({128, 64}, 1))};
  ASSERT_TRUE(infer_types(graph).has_value());
  const Plan plan = plan_for(graph);
  ASSERT_EQ(plan.groups.size(), 1U);
  ASSERT_NE(bf16x3_group(plan), nullptr);
  const std::vector<Datum> inputs{Datum::of(spread_numbers({4, 48, 32}, 7))};
  const std::vector<double> truth = exact(graph, inputs);
  EXPECT_LT(error_of(evaluated(plan, inputs), truth), 1e-6);
  const std::vector<float> made = simulated(plan, inputs);
  EXPECT_LT(error_of(made, truth), 2.5e-7);
  if (!has_tiles_here()) return;
  EXPECT_EQ(executed(plan, inputs, 2), made);
}

// What cannot be split is NaN in its row, and nowhere else.
TEST(Bf16x3, RowsThatAreNotFiniteStayByThemselves) {
  const Graph graph = model_of({});
  const Plan plan = plan_for(graph);
  Tensor rows = spread_numbers({64, 64}, 7);
  const std::vector<float> before = simulated(plan, {Datum::of(rows.aligned())});
  Tensor broken = spread_numbers({64, 64}, 7);
  broken.mutable_view<float>()[64 * 5 + 3] = INFINITY;
  const std::vector<float> after = simulated(plan, {Datum::of(broken)});
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (i / 64 == 5) {
      ASSERT_TRUE(std::isnan(after[i])) << i;
    } else {
      ASSERT_EQ(after[i], before[i]) << i;
    }
  }
}

TEST(Bf16x3, WeightsAreTheSumOfTheirSplit) {
  const Tensor weights = spread_numbers({64, 33}, 5);
  auto split = weights_in_parts(weights, 0);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->dims(), (Dims{3, 3, 1, 2, 16, 32}));
  const auto from = weights.view<float>();
  const auto to = split->view<std::uint16_t>();
  for (std::size_t k = 0; k < 64; ++k) {
    for (std::size_t n = 0; n < 33; ++n) {
      double sum = 0;
      for (std::size_t q = 0; q < 3; ++q) {
        const std::size_t line = ((n / 16 * 3 + q) * 2 + k / 32) * 16 + k % 16;
        sum += static_cast<double>(bf16_to_f32(to[line * 32 + n % 16 * 2 + k / 16 % 2]));
      }
      ASSERT_EQ(sum, static_cast<double>(from[k * 33 + n])) << k << " " << n;
    }
  }
  EXPECT_FALSE(weights_in_parts(weights, 1).has_value());  // 33 along the sum
}

// A kernel of plain multiply-adds has an error of its own; the split has no more.
TEST(Bf16x3, ErrorsAreThoseOfF32) {
  const Graph graph = model_of({.rows = 64, .depth = 1024, .columns = 64});
  CompileOptions plain = bf16x3();
  plain.precision = Precision::F32;
  const std::vector<Datum> inputs{Datum::of(spread_numbers({64, 1024}, 7))};
  const std::vector<double> truth = exact(graph, inputs);
  const double in_f32 = error_of(simulated(plan_for(graph, plain), inputs), truth),
               split = error_of(simulated(plan_for(graph), inputs), truth);
  EXPECT_LT(split, in_f32);
  EXPECT_GT(split, 0);
}

TEST(Bf16x3, AreTakenOnlyWhereAskedForAndWhereTheyGain) {
  const Graph graph = model_of({});
  CompileOptions plain = bf16x3();
  plain.precision = Precision::F32;
  EXPECT_EQ(bf16x3_group(plan_for(graph, plain)), nullptr);
  EXPECT_EQ(bf16x3_group(plan_for(graph, bf16x3("avx512"))), nullptr);  // no tiles
  CompileOptions in_order = bf16x3();
  in_order.rewrite.allow_reassociating = in_order.fusion.choose.allow_reassociating = false;
  EXPECT_EQ(bf16x3_group(plan_for(graph, in_order)), nullptr);
  const Plan plan = plan_for(graph);
  ASSERT_NE(bf16x3_group(plan), nullptr);
  EXPECT_EQ(bf16x3_group(plan)->schedule.exactness, Exactness::PrecisionChanging);
  EXPECT_EQ(bf16x3_group(plan_for(model_of({.rows = 4}))), nullptr);  // weights are read longer
  EXPECT_EQ(bf16x3_group(plan_for(model_of({.depth = 48}))), nullptr);
  EXPECT_EQ(bf16x3_group(plan_for(model_of({.columns = 8}))), nullptr);
}

TEST(Bf16x3, WeightsThatAreNotFiniteOrSharedStayAsTheyAre) {
  auto taken = [](float weight, bool shared) {
    Graph graph;
    const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{64, 64}));
    Tensor weights = spread_numbers({64, 64}, 1);
    weights.mutable_view<float>()[100] = weight;
    const ValueId p = matmul_of(graph, x, {}, std::move(weights));
    graph.outputs = {p};
    if (shared) graph.outputs = {graph.output_of(graph.add_node("Add", {p, graph.find("w")}, {"y"}))};
    EXPECT_TRUE(infer_types(graph).has_value());
    return bf16x3_group(plan_for(graph)) != nullptr;
  };
  EXPECT_TRUE(taken(1, false));
  EXPECT_FALSE(taken(INFINITY, false));
  EXPECT_FALSE(taken(NAN, false));
  EXPECT_FALSE(taken(3e38F, false));
  EXPECT_FALSE(taken(1, true));
}

TEST(Bf16x3, LocksSayItAndAreRefusedWhereItIsForbidden) {
  Module module;
  module.graph = model_of({});
  const CompileOptions options = bf16x3();
  auto lock = make_lock(module, options);
  ASSERT_TRUE(lock.has_value()) << lock.error().message;
  EXPECT_NE(lock->text.find("schedule bf16x3 \"precision-changing\""), std::string::npos) << lock->text;
  LockOptions loading;
  auto plan = load_lock(lock->text, module, loading);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const std::vector<Datum> inputs{Datum::of(spread_numbers({64, 64}, 7))};
  EXPECT_EQ(simulated(*plan, inputs), simulated(plan_for(module.graph), inputs));
  loading.allow_precision_changing = false;
  auto refused = load_lock(lock->text, module, loading);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("precision-changing"), std::string::npos);
}

}  // namespace
}  // namespace xyntra
