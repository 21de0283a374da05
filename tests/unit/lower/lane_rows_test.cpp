// Rows that are contiguous in memory: one work item takes a block of them, one in each lane.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/compiled/cpu_backend.h"
#include "compiler/pipeline.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Tensor waves(const Dims& dims) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  auto values = tensor.mutable_view<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i) * 0.37F) + 0.1F * static_cast<float>(i % 7);
  return tensor;
}

// (x - mean) / sqrt(variance + 0.5), over the given axis.
Graph norm(const Shape& shape, std::int64_t axis) {
  Graph graph;
  auto apply = [&](const char* op, std::vector<ValueId> operands, const char* name) {
    return graph.output_of(graph.add_node(op, std::move(operands), {name}));
  };
  Tensor along = *Tensor::allocate(DType::I64, {1}), half = *Tensor::allocate(DType::F32, {});
  along.set_element_i64(0, axis);
  half.mutable_view<float>()[0] = 0.5F;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, shape));
  const ValueId axes = graph.add_constant("axes", along), little = graph.add_constant("little", half);
  const ValueId mean = apply("ReduceMean", {x, axes}, "mean");
  const ValueId apart = apply("Sub", {x, mean}, "apart");
  const ValueId square = apply("Mul", {apart, apart}, "square");
  const ValueId variance = apply("ReduceMean", {square, axes}, "variance");
  const ValueId deviation = apply("Sqrt", {apply("Add", {variance, little}, "more")}, "deviation");
  graph.outputs = {apply("Div", {apart, deviation}, "y")};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

std::vector<double> expected_of(const Tensor& x, std::int64_t axis) {
  const auto values = x.view<float>();
  std::int64_t inner = 1, middle = x.dims()[static_cast<std::size_t>(axis)];
  for (std::size_t d = static_cast<std::size_t>(axis) + 1; d < x.dims().size(); ++d) inner *= x.dims()[d];
  std::vector<double> made(values.size());
  for (std::int64_t first = 0; first < x.count(); ++first) {
    if (first / inner % middle != 0) continue;
    auto at = [&](std::int64_t k) { return static_cast<std::size_t>(first + k * inner); };
    double sum = 0, squares = 0;
    for (std::int64_t k = 0; k < middle; ++k) sum += static_cast<double>(values[at(k)]);
    const double mean = sum / static_cast<double>(middle);
    for (std::int64_t k = 0; k < middle; ++k)
      squares += std::pow(static_cast<double>(values[at(k)]) - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(middle) + 0.5);
    for (std::int64_t k = 0; k < middle; ++k)
      made[at(k)] = (static_cast<double>(values[at(k)]) - mean) / deviation;
  }
  return made;
}

Plan plan_of(const Graph& graph, const Target& target) {
  CompileOptions options;
  options.target = &target;
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

TEST(LaneRows, NormalizeOverAnyAxis) {
  const Dims dims = {3, 40, 5, 64};
  const Tensor x = waves(dims);
  for (std::int64_t axis : {1, 2, 3}) {
    auto model = compile_for_cpu(plan_of(norm({Dim::symbol("n"), 40, 5, 64}, axis), host_target()), {});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const std::vector<double> expected = expected_of(x, axis);
    for (int threads : {1, 3}) {
      RunOptions options;
      options.threads = threads;
      RunContext context(model->program, model->host, options);
      auto results = context.run(std::vector<Datum>{Datum::of(x)});
      ASSERT_TRUE(results.has_value()) << results.error().message;
      const auto made = (*results)[0].tensor.view<float>();
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(static_cast<double>(made[i]), expected[i], 1e-5) << "axis " << axis << ", element " << i;
    }
  }
}

TEST(LaneRows, FetchNoElementByItself) {
  // Sums along the innermost axis hold partial sums in lanes; along others each lane sums a row of its own.
  auto text = kernels_of(plan_of(norm({Dim::symbol("n"), 40, 64}, 1), **find_target("avx512")));
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->find("vector l < 8"), std::string::npos) << *text;  // where lanes are added up
  text = kernels_of(plan_of(norm({Dim::symbol("n"), 40, 64}, 2), **find_target("avx512")));
  ASSERT_TRUE(text.has_value());
  EXPECT_NE(text->find("vector l < 8"), std::string::npos) << *text;
}

}  // namespace
}  // namespace xyntra
