// Copies between layouts go square by square: whatever the sizes leave over at the edges, every element arrives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/make_runner.h"
#include "compiler/pipeline.h"
#include "fusion/check.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "plan/check.h"
#include "plan/text.h"

namespace xyntra {
namespace {

Tensor counted(const Dims& dims) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  auto bytes = tensor.mutable_bytes();
  for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
    const auto value = static_cast<float>(i % 65521);
    std::memcpy(&bytes[i * sizeof(float)], &value, sizeof value);
  }
  return tensor;
}

// y = z + transpose(x), the last two axes swapped.
Graph transposed_sum(const Dim& rows, const Dim& columns) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{2, rows, columns}));
  const ValueId z = graph.add_input("z", Type::tensor(DType::F32, Shape{2, columns, rows}));
  Attributes transpose{{"perm", std::vector<std::int64_t>{0, 2, 1}}};
  const ValueId t = graph.output_of(graph.add_node("Transpose", {x}, {"t"}, transpose));
  graph.outputs = {graph.output_of(graph.add_node("Add", {z, t}, {"y"}))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

void agree(const Graph& graph, const char* backend, std::int64_t rows, std::int64_t columns) {
  auto reference = make_runner(graph, "reference", {});
  auto tested = make_runner(graph, backend, {});
  ASSERT_TRUE(reference && tested);
  const std::vector<Datum> inputs{Datum::of(counted({2, rows, columns})),
                                  Datum::of(counted({2, columns, rows}))};
  auto expected = (*reference)->run(inputs), got = (*tested)->run(inputs);
  ASSERT_TRUE(expected && got) << backend << ": " << got.error().to_string();
  const auto right = (*expected)[0].tensor.bytes(), made = (*got)[0].tensor.bytes();
  ASSERT_EQ(right.size(), made.size());
  EXPECT_EQ(std::memcmp(right.data(), made.data(), right.size()), 0)
      << backend << ", " << rows << " by " << columns;
}

TEST(TransposedCopies, EveryElementArrivesWhateverIsLeftOver) {
  for (std::int64_t rows : {16, 31, 48, 65}) {
    for (std::int64_t columns : {16, 17, 47}) {
      agree(transposed_sum(rows, columns), "cpu", rows, columns);
      agree(transposed_sum(rows, columns), "sim", rows, columns);
    }
  }
}

TEST(TransposedCopies, SizesMayBeKnownLate) {
  const Graph graph = transposed_sum(Dim::symbol("rows"), Dim::symbol("columns"));
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 40}, {40, 3}, {33, 50}}) {
    agree(graph, "cpu", rows, columns);
    agree(graph, "sim", rows, columns);
  }
}

// ---- relayouts that are groups of their own

struct Case {
  const char* name;
  std::string text;
  std::string copied;  // the value that a launch makes by moving elements
};

std::string ones(const char* name, const char* shape, const char* dims) {
  return std::string("  const %") + name + "_dims: i64[4] = " + dims + "\n  %" + name + ": f32" + shape +
         " = Expand(%tap, %" + name + "_dims)\n";
}

const Case kTransposed{"transposed operand", R"(xir 1
graph @main(%a: f32[4, 16, 48], %b: f32[48, 48, 4]) -> (%y) {
  %t: f32[4, 48, 48] = Transpose(%b) {perm = [2, 0, 1]}
  %y: f32[4, 16, 48] = MatMul(%a, %t)
}
)",
                       "t"};
// Three windows want the feature map blocked, a matmul wants it plain.
const Case kShared{"shared feature map",
                   R"(xir 1
graph @main(%x: f32[1, 32, 14, 14], %m: f32[196, 8]) -> (%y, %z) {
  const %tap: f32[1, 1, 1, 1] = [0.125]
  const %rows: i64[2] = [32, 196]
)" + ones("w", "[32, 32, 3, 3]", "[32, 32, 3, 3]") +
                       ones("d", "[32, 1, 3, 3]", "[32, 1, 3, 3]") + R"(
  %a: f32[1, 32, 14, 14] = Conv(%x, %w) {pads = [1, 1, 1, 1]}
  %b: f32[1, 32, 14, 14] = Conv(%a, %d) {group = 32, pads = [1, 1, 1, 1]}
  %c: f32[1, 32, 14, 14] = Conv(%a, %d) {group = 32, dilations = [2, 2], pads = [2, 2, 2, 2]}
  %e: f32[1, 32, 14, 14] = Conv(%a, %d) {group = 32, dilations = [3, 3], pads = [3, 3, 3, 3]}
  %bc: f32[1, 32, 14, 14] = Add(%b, %c)
  %bce: f32[1, 32, 14, 14] = Add(%bc, %e)
  %k0: f32[1, 32, 14, 14] = Conv(%bce, %w) {pads = [1, 1, 1, 1]}
  %k1: f32[1, 32, 14, 14] = Conv(%k0, %w) {pads = [1, 1, 1, 1]}
  %k2: f32[1, 32, 14, 14] = Conv(%k1, %w) {pads = [1, 1, 1, 1]}
  %k3: f32[1, 32, 14, 14] = Conv(%k2, %w) {pads = [1, 1, 1, 1]}
  %k4: f32[1, 32, 14, 14] = Conv(%k3, %w) {pads = [1, 1, 1, 1]}
  %y: f32[1, 32, 14, 14] = Conv(%k4, %w) {pads = [1, 1, 1, 1]}
  %r: f32[32, 196] = Reshape(%a, %rows)
  %z: f32[32, 8] = MatMul(%r, %m)
}
)",
                   "a.relayout"};

Graph graph_of(const Case& one) {
  auto module = parse_xir(one.text);
  EXPECT_TRUE(module.has_value()) << one.name << (module ? "" : module.error().to_string());
  EXPECT_TRUE(infer_types(module->graph).has_value());
  return std::move(module->graph);
}

TEST(Relayouts, AreGroupsThatEveryCheckerTakesAndLocksKeep) {
  for (const Case& one : {kTransposed, kShared}) {
    SCOPED_TRACE(one.name);
    CompileOptions options;
    options.target = *find_target("avx512");
    auto plan = make_plan(graph_of(one), options);
    ASSERT_TRUE(plan) << plan.error().to_string();
    const ValueId copied = plan->graph.find(one.copied);
    ASSERT_TRUE(copied.valid());
    const auto stage = std::ranges::find_if(
        plan->groups, [&](const Group& group) { return group.outputs == std::vector<ValueId>{copied}; });
    ASSERT_NE(stage, plan->groups.end());
    EXPECT_EQ(stage->hero, Hero::Movement);
    EXPECT_EQ(stage->schedule.kind, ScheduleKind::Movement);
    EXPECT_TRUE(check_plan(*plan).has_value());
    EXPECT_TRUE(check_groups(*plan, *options.target).has_value());
    const std::string text = print_lock(lock_of(*plan));
    auto read = parse_lock(text);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(print_lock(*read), text);
    EXPECT_NE(text.find("choice %" + one.copied + " stage "), std::string::npos);
  }
}

TEST(Relayouts, GiveWhatTheModelMeansOnEveryBackend) {
  for (const Case& one : {kTransposed, kShared}) {
    const Graph graph = graph_of(one);
    std::vector<Datum> inputs;
    for (ValueId input : graph.inputs) {
      Dims dims;
      for (const Dim& dim : *graph.value(input).type.shape) dims.push_back(dim.constant());
      inputs.push_back(Datum::of(counted(dims)));
    }
    auto reference = make_runner(graph, "reference", {});
    ASSERT_TRUE(reference);
    auto expected = (*reference)->run(inputs);
    ASSERT_TRUE(expected);
    for (const char* backend : {"fused", "sim", "cpu"}) {
      SCOPED_TRACE(std::string(one.name) + " on " + backend);
      auto tested = make_runner(graph, backend, {});
      ASSERT_TRUE(tested);
      auto got = (*tested)->run(inputs);
      ASSERT_TRUE(got) << got.error().to_string();
      for (std::size_t o = 0; o < expected->size(); ++o) {
        const Tensor &right = (*expected)[o].tensor, &made = (*got)[o].tensor;
        ASSERT_EQ(right.count(), made.count());
        for (std::int64_t i = 0; i < right.count(); ++i) {
          const double value = right.element_as_f64(i);
          ASSERT_NEAR(made.element_as_f64(i), value, 1e-5 * std::abs(value) + 1e-3) << "element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace xyntra
