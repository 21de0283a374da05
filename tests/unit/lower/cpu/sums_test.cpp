// Long sums: matmuls and convolutions are added up from shorter sums, which keeps their numerical error low.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/compiled/cpu_backend.h"
#include "compiler/compiled/sim_backend.h"
#include "compiler/pipeline.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

std::vector<float> draw(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
  }
  return values;
}

Tensor tensor_of(const Dims& dims, const std::vector<float>& values) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  std::memcpy(tensor.mutable_bytes().data(), values.data(), values.size() * sizeof(float));
  return tensor;
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  std::memcpy(values.data(), tensor.bytes().data(), values.size() * sizeof(float));
  return values;
}

struct Matmul {
  std::int64_t rows, depth, columns;
  bool heavy;  // a long function follows

  std::vector<float> left() const { return draw(rows * depth, 1); }
  std::vector<float> right() const { return draw(depth * columns, 2); }

  Graph graph() const {
    Graph graph;
    const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{rows, depth}));
    const ValueId w = graph.add_constant("w", tensor_of({depth, columns}, right()));
    ValueId y = graph.output_of(graph.add_node("MatMul", {x, w}, {"p"}));
    if (heavy) {  // which changes no relative error: all sums are positive
      y = graph.output_of(graph.add_node("Abs", {y}, {"q"}));
      for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
        y = graph.output_of(graph.add_node("Relu", {y}, {name}));
    }
    graph.outputs = {y};
    EXPECT_TRUE(infer_types(graph).has_value());
    return graph;
  }

  // The largest difference to sums in float64.
  double error_of(const std::vector<float>& made) const {
    const std::vector<float> a = left(), b = right();
    double worst = 0;
    for_each_element([&](std::size_t row, std::size_t column, std::size_t at) {
      double sum = 0;
      for_each_factor(row, column, [&](std::size_t i, std::size_t j) {
        sum += static_cast<double>(a[i]) * static_cast<double>(b[j]);
      });
      worst = std::max(worst, std::abs(sum - static_cast<double>(made.at(at))));
    });
    return worst;
  }

  // One long sum in f32.
  std::vector<float> one_by_one() const {
    const std::vector<float> a = left(), b = right();
    std::vector<float> made(static_cast<std::size_t>(rows * columns));
    for_each_element([&](std::size_t row, std::size_t column, std::size_t at) {
      for_each_factor(row, column,
                      [&](std::size_t i, std::size_t j) { made[at] = std::fma(a[i], b[j], made[at]); });
    });
    return made;
  }

 private:
  template <class Visit>
  void for_each_element(Visit visit) const {
    const auto height = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(columns);
    for (std::size_t row = 0; row < height; ++row)
      for (std::size_t column = 0; column < width; ++column) visit(row, column, row * width + column);
  }
  template <class Visit>
  void for_each_factor(std::size_t row, std::size_t column, Visit visit) const {
    const auto length = static_cast<std::size_t>(depth), width = static_cast<std::size_t>(columns);
    for (std::size_t k = 0; k < length; ++k) visit(row * length + k, k * width + column);
  }
};

// One row; rows and columns that fill no tile; two, three and many parts; passes over many tiles.
const Matmul kMatmuls[] = {{1, 4096, 32, false}, {5, 512, 37, false},   {33, 768, 32, true},
                           {3, 2304, 48, true},  {64, 1152, 16, false}, {97, 3072, 64, false}};

Plan plan_for(const Matmul& matmul, const Target& target) {
  CompileOptions options;
  options.target = &target;
  auto plan = make_plan(matmul.graph(), options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

std::vector<float> result_of(RunContext& context, const Matmul& matmul) {
  auto results =
      context.run(std::vector<Datum>{Datum::of(tensor_of({matmul.rows, matmul.depth}, matmul.left()))});
  EXPECT_TRUE(results.has_value()) << results.error().message;
  return values_of((*results)[0].tensor);
}

TEST(LongSums, HaveLessErrorThanOneByOne) {
  for (const Matmul& matmul : kMatmuls) {
    const double plain = matmul.error_of(matmul.one_by_one());
    auto model = compile_for_cpu(plan_for(matmul, host_target()), {});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    std::vector<std::vector<float>> made;
    for (int threads : {1, 2, 4}) {
      RunOptions options;
      options.threads = threads;
      RunContext context(model->program, model->host, options);
      made.push_back(result_of(context, matmul));
      EXPECT_EQ(made.back(), made.front()) << threads << " threads";
    }
    EXPECT_LT(matmul.error_of(made.front()), 0.7 * plain) << matmul.rows << "x" << matmul.depth;
  }
}

TEST(LongSums, AreCutOnEveryTarget) {
  const Matmul matmul{5, 512, 37, false};
  const double plain = matmul.error_of(matmul.one_by_one());
  for (const char* name : {"avx2", "avx512", "neon"}) {
    auto lowered = lower_plan(plan_for(matmul, **find_target(name)), {});
    ASSERT_TRUE(lowered.has_value()) << lowered.error().message;
    RunContext context(std::make_shared<const LaunchProgram>(std::move(lowered->program)), lowered->host, {},
                       simulate_kernels(std::move(lowered->kernels)));
    EXPECT_LT(matmul.error_of(result_of(context, matmul)), plain) << name;
  }
}

}  // namespace
}  // namespace xyntra
