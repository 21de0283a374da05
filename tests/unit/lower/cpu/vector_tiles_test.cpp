// Matmuls rounded to bf16 on dot-product units (dot2, mmla): every backend computes the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/lock.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

struct UnitCase {
  const char* target;
  const char* call;
};
constexpr UnitCase kUnits[] = {{"avx512_bf16", "dot2_bf16"}, {"neon_bf16", "mmla_bf16"}};

Tensor counted(const Dims& dims, int seed) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  auto values = tensor.mutable_view<float>();
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value =
        static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 22);
  }
  return tensor;
}

Plan plan_for(const Graph& graph, const char* target, const SymbolBindings& nominal = {},
              bool allow_reassociating = true) {
  CompileOptions options;
  options.target = *find_target(target);
  options.precision = Precision::Bf16;
  options.fusion.choose.nominal = nominal;
  options.fusion.choose.allow_reassociating = allow_reassociating;
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

bool calls(const Plan& plan, const char* intrinsic) {
  const auto text = kernels_of(plan);
  return text.has_value() && text->find(intrinsic) != std::string::npos;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& expected, double most) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], most + 1e-4 * std::abs(expected[i])) << "element " << i;
}

// Simulated as the formula says, within the numerical error of sums in other orders; and here to the bit, where the unit is.
void expect_right(const Plan& plan, const UnitCase& unit, const std::vector<Datum>& inputs,
                  double most = 1e-3) {
  const std::vector<float> in_simulator = simulated(plan, inputs);
  expect_close(in_simulator, evaluated(plan, inputs), most);
  if (!runs_on_host(**find_target(unit.target))) return;
  for (int threads : {1, 2})
    EXPECT_EQ(executed(plan, inputs, threads), in_simulator) << threads << " threads";
}

// relu(x w + b), the weights given.
Graph dense(const Dim& rows, std::int64_t depth, std::int64_t columns) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{rows, depth}));
  const ValueId w = graph.add_constant("w", counted({depth, columns}, 1));
  const ValueId b = graph.add_constant("b", counted({columns}, 2));
  const ValueId p = graph.output_of(graph.add_node("MatMul", {x, w}, {"p"}, {}, "product"));
  const ValueId s = graph.output_of(graph.add_node("Add", {p, b}, {"s"}));
  graph.outputs = {graph.output_of(graph.add_node("Relu", {s}, {"y"}))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

TEST(VectorTiles, ComputeWhatTheRoundedFormulaSays) {
  struct Case {
    std::int64_t rows, depth, columns;
  };
  // Tiles that come out even; rows and columns left over; few rows; depths that leave groups, pairs and single ones over.
  for (const Case& c : {Case{28, 64, 64}, Case{37, 96, 50}, Case{5, 32, 16}, Case{1, 64, 80}, Case{1, 39, 33},
                        Case{2, 64, 80}, Case{50, 1088, 33}, Case{33, 72, 40}, Case{70, 25, 64},
                        Case{48, 17, 33}, Case{300, 160, 64}, Case{13, 63, 112}, Case{9, 46, 48}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " " + std::to_string(c.depth) + " " + std::to_string(c.columns));
    for (const UnitCase& unit : kUnits) {
      SCOPED_TRACE(unit.target);
      const Plan plan = plan_for(dense(c.rows, c.depth, c.columns), unit.target);
      EXPECT_EQ(plan.groups.size(), 1U);
      EXPECT_TRUE(calls(plan, unit.call));
      expect_right(plan, unit, {Datum::of(counted({c.rows, c.depth}, 3))});
    }
  }
}

TEST(VectorTiles, TakeAnyNumberOfRows) {
  for (const UnitCase& unit : kUnits) {
    SCOPED_TRACE(unit.target);
    const Plan plan = plan_for(dense(Dim::symbol("n"), 68, 48), unit.target);
    EXPECT_TRUE(calls(plan, unit.call));
    for (std::int64_t rows : {1, 2, 5, 6, 7, 13, 14, 15, 28, 100, 300}) {
      SCOPED_TRACE(rows);
      expect_right(plan, unit, {Datum::of(counted({rows, 68}, 4))});
    }
  }
}

// Both factors are computed: panels are packed by a stage of the launch.
TEST(VectorTiles, MatmulsOfTwoInputsArePacked) {
  for (const UnitCase& unit : kUnits) {
    SCOPED_TRACE(unit.target);
    Graph graph;
    const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{3, 20, 40}));
    const ValueId z = graph.add_input("z", Type::tensor(DType::F32, Shape{3, 40, 24}));
    graph.outputs = {graph.output_of(graph.add_node("MatMul", {x, z}, {"y"}))};
    ASSERT_TRUE(infer_types(graph).has_value());
    const Plan plan = plan_for(graph, unit.target);
    EXPECT_TRUE(calls(plan, unit.call));
    expect_right(plan, unit, {Datum::of(counted({3, 20, 40}, 3)), Datum::of(counted({3, 40, 24}, 4))});
  }
}

TEST(VectorTiles, ConvolutionsAreMatmulsOverWindows) {
  struct Case {
    std::int64_t size, window, stride, pad;
  };
  for (const Case& c :
       {Case{9, 3, 1, 1}, Case{14, 3, 2, 1}, Case{20, 1, 1, 0}, Case{7, 3, 1, 1}, Case{33, 3, 1, 1}}) {
    SCOPED_TRACE(std::to_string(c.size) + " " + std::to_string(c.window) + " " + std::to_string(c.stride));
    for (const UnitCase& unit : kUnits) {
      SCOPED_TRACE(unit.target);
      Graph graph;
      const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 32, c.size, c.size}));
      const ValueId w = graph.add_constant("w", counted({48, 32, c.window, c.window}, 1));
      const ValueId v = graph.add_constant("v", counted({32, 48, 1, 1}, 2));
      const std::vector<std::int64_t> strides{c.stride, c.stride}, pads(4, c.pad);
      const ValueId p =
          graph.output_of(graph.add_node("Conv", {x, w}, {"p"}, {{"strides", strides}, {"pads", pads}}));
      const ValueId r = graph.output_of(graph.add_node("Relu", {p}, {"r"}));
      graph.outputs = {graph.output_of(graph.add_node("Conv", {r, v}, {"y"}))};
      ASSERT_TRUE(infer_types(graph).has_value());
      const Plan plan = plan_for(graph, unit.target);
      EXPECT_TRUE(calls(plan, unit.call));
      // What lies between is rounded: a sum in another order may fall to the other side.
      expect_right(plan, unit, {Datum::of(counted({1, 32, c.size, c.size}, 3))}, 1.5);
    }
  }
}

// Queries that fill blocks, that leave some over, and that fill not even half a block.
TEST(VectorTiles, BothMatmulsOfAttentionTakeThem) {
  for (const UnitCase& unit : kUnits) {
    SCOPED_TRACE(unit.target);
    const Plan general = plan_for(packed_heads(Dim::symbol("s")), unit.target, {{"s", 64}});
    EXPECT_EQ(general.groups.size(), 1U);
    EXPECT_TRUE(calls(general, unit.call));
    for (const std::int64_t queries : {48, 72, 33, 53, 20, 12, 7}) {
      SCOPED_TRACE(queries);
      const std::vector<Datum> inputs{Datum::of(counted({queries, 192}, 3)),
                                      Datum::of(counted({queries, queries}, 4))};
      const Plan fixed = plan_for(packed_heads(queries), unit.target);
      EXPECT_EQ(calls(fixed, unit.call), queries >= 16);
      // Weights are rounded before they are divided by their sum: not the bits of the formula.
      expect_right(fixed, unit, inputs, 0.02);
      expect_right(general, unit, inputs, 0.02);
    }
  }
}

TEST(VectorTiles, SumsThatKeepTheirOrderDoWithout) {
  for (const UnitCase& unit : kUnits) {
    const Plan plan = plan_for(dense(20, 64, 48), unit.target, {}, false);
    EXPECT_FALSE(calls(plan, unit.call)) << unit.target;
  }
}

}  // namespace
}  // namespace xyntra
