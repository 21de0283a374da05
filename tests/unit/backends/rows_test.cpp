// Matmuls with a dynamic number of rows: whatever the cut into tiles leaves over, results are right.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backends/make_runner.h"
#include "compiler/compiled/cpu_backend.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Tensor drawn(const Dims& dims, std::uint32_t state) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  auto bytes = tensor.mutable_bytes();
  for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    state = state * 1664525U + 1013904223U;
    const float value = static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / (1 << 23);
    std::memcpy(&bytes[i], &value, sizeof value);
  }
  return tensor;
}

std::vector<float> elements(const Datum& datum) {
  std::vector<float> values(static_cast<std::size_t>(datum.tensor.count()));
  std::memcpy(values.data(), datum.tensor.bytes().data(), values.size() * sizeof(float));
  return values;
}

// x + gelu-like epilogue of x w: the residual may be written in place, so a row must not be computed twice.
Graph residual_layer(std::int64_t depth) {
  Graph graph;
  const Shape rows{Dim::symbol("batch"), Dim::symbol("seq"), depth};
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, rows));
  const ValueId w = graph.add_constant("w", drawn({depth, depth}, 7));
  const ValueId n = graph.output_of(graph.add_node("Neg", {x}, {"n"}));
  const ValueId p = graph.output_of(graph.add_node("MatMul", {n, w}, {"p"}, {}, "product"));
  const ValueId t = graph.output_of(graph.add_node("Tanh", {p}, {"t"}));
  graph.outputs = {graph.output_of(graph.add_node("Add", {t, n}, {"y"}))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

void agree(const Graph& graph, const char* backend, std::int64_t depth, std::int64_t most) {
  auto reference = make_runner(graph, "reference", {});
  auto tested = make_runner(graph, backend, {});
  ASSERT_TRUE(reference && tested);
  for (std::int64_t rows = 1; rows <= most; ++rows) {
    const std::int64_t batch = rows % 3 == 0 ? 3 : 1;
    const std::vector<Datum> inputs{Datum::of(drawn({batch, rows / batch, depth}, 11))};
    auto expected = (*reference)->run(inputs), got = (*tested)->run(inputs);
    ASSERT_TRUE(expected && got) << backend << " " << rows << " rows: " << got.error().to_string();
    const std::vector<float> right = elements((*expected)[0]), made = elements((*got)[0]);
    ASSERT_EQ(right.size(), made.size());
    for (std::size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(right[i], made[i], 1e-4) << backend << ", " << rows << " rows, element " << i;
  }
}

TEST(RowsKnownLate, EveryRemainderOfATileOnMachineCode) { agree(residual_layer(64), "cpu", 64, 70); }
TEST(RowsKnownLate, EveryRemainderOfATileSummedInPasses) { agree(residual_layer(768), "cpu", 768, 40); }
TEST(RowsKnownLate, NoStrayAccessesInTheSimulator) { agree(residual_layer(48), "sim", 48, 21); }

TEST(RowsKnownLate, NothingIsCompiledForOtherSizes) {
  const Graph graph = residual_layer(64);
  EvaluatorOptions options;
  options.counts = std::make_shared<RunCounts>();
  auto runner = make_runner(graph, "cpu", options);
  ASSERT_TRUE(runner.has_value());
  for (std::int64_t rows : {1, 5, 5, 64, 2}) {
    const std::vector<Datum> inputs{Datum::of(drawn({1, rows, 64}, 3))};
    ASSERT_TRUE((*runner)->run(inputs).has_value());
  }
  EXPECT_EQ(options.counts->compiles, 1u);
  EXPECT_EQ(options.counts->bindings, 4u);
}

}  // namespace
}  // namespace xyntra
