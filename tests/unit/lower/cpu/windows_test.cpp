// Windows over few positions and over reflected padding: values, and that indices are computed once.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/compiled/cpu_backend.h"
#include "compiler/pipeline.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Tensor ramp(const Dims& dims, float step) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  auto values = tensor.mutable_view<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * step);
  return tensor;
}

Tensor list_of(std::initializer_list<std::int64_t> numbers) {
  Tensor tensor = *Tensor::allocate(DType::I64, {static_cast<std::int64_t>(numbers.size())});
  std::int64_t at = 0;
  for (std::int64_t number : numbers) tensor.set_element_i64(at++, number);
  return tensor;
}

constexpr std::int64_t kLength = 96, kMore = 32, kChannels = 34, kWindow = 64, kStride = 16;

// Short pieces of a signal whose end is mirrored, each multiplied with all filters: how spectra are made.
Graph spectrum() {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 1, kLength}));
  const ValueId pads = graph.add_constant("pads", list_of({0, 0, 0, 0, 0, kMore}));
  const ValueId w = graph.add_constant("w", ramp({kChannels, 1, kWindow}, 0.7F));
  const ValueId longer = graph.output_of(
      graph.add_node("Pad", {x, pads}, {"longer"}, {{"mode", std::string("reflect")}}, "mirror"));
  graph.outputs = {graph.output_of(graph.add_node(
      "Conv", {longer, w}, {"y"}, {{"strides", std::vector<std::int64_t>{kStride}}}, "filter"))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

Plan plan_of(const Graph& graph, const Target& target) {
  CompileOptions options;
  options.target = &target;
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

TEST(Windows, OverReflectedPadding) {
  auto model = compile_for_cpu(plan_of(spectrum(), host_target()), {});
  ASSERT_TRUE(model.has_value()) << model.error().message;
  RunContext context(model->program, model->host, {});
  const Tensor x = ramp({1, 1, kLength}, 0.3F), w = ramp({kChannels, 1, kWindow}, 0.7F);
  auto results = context.run(std::vector<Datum>{Datum::of(x)});
  ASSERT_TRUE(results.has_value()) << results.error().message;
  const auto made = (*results)[0].tensor.view<float>();
  const auto signal = x.view<float>(), filters = w.view<float>();
  constexpr std::int64_t kPlaces = (kLength + kMore - kWindow) / kStride + 1;
  ASSERT_EQ(static_cast<std::int64_t>(made.size()), kChannels * kPlaces);
  for (std::int64_t c = 0; c < kChannels; ++c) {
    for (std::int64_t place = 0; place < kPlaces; ++place) {
      double sum = 0;
      for (std::int64_t k = 0; k < kWindow; ++k) {
        std::int64_t at = place * kStride + k;
        if (at >= kLength) at = 2 * (kLength - 1) - at;
        sum += static_cast<double>(signal[static_cast<std::size_t>(at)]) *
               static_cast<double>(filters[static_cast<std::size_t>(c * kWindow + k)]);
      }
      ASSERT_NEAR(static_cast<double>(made[static_cast<std::size_t>(c * kPlaces + place)]), sum, 1e-4)
          << c << " " << place;
    }
  }
}

TEST(Windows, MirroredIndicesAreComputedOnce) {
  auto text = kernels_of(plan_of(spectrum(), **find_target("avx512")));
  ASSERT_TRUE(text.has_value());
  const std::size_t sums = text->find("fma(");
  ASSERT_NE(sums, std::string::npos) << *text;
  EXPECT_EQ(text->find("abs(", sums), std::string::npos) << *text;  // only the copy before computes them
}

// A convolution of an image whose channels lie in no blocks, with so many blocks of channels in the result.
Graph image_to_blocks(std::int64_t blocks) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{1, 16, 9, 9}));
  const ValueId w = graph.add_constant("w", ramp({16 * blocks, 16, 3, 3}, 0.7F));
  graph.outputs = {graph.output_of(graph.add_node("Conv", {x, w}, {"y"}, {}, "filter"))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

class BlocksOfChannels : public testing::TestWithParam<std::int64_t> {};

TEST_P(BlocksOfChannels, AreSummedWhetherTheyFillTilesOrNot) {
  const std::int64_t channels = 16 * GetParam();
  auto model = compile_for_cpu(plan_of(image_to_blocks(GetParam()), host_target()), {});
  ASSERT_TRUE(model.has_value()) << model.error().message;
  RunContext context(model->program, model->host, {});
  const Tensor x = ramp({1, 16, 9, 9}, 0.3F), w = ramp({channels, 16, 3, 3}, 0.7F);
  auto results = context.run(std::vector<Datum>{Datum::of(x)});
  ASSERT_TRUE(results.has_value()) << results.error().message;
  const auto made = (*results)[0].tensor.view<float>();
  const auto image = x.view<float>(), filters = w.view<float>();
  ASSERT_EQ(static_cast<std::int64_t>(made.size()), channels * 49);
  std::size_t at = 0;
  for (std::int64_t m = 0; m < channels; ++m) {
    for (std::int64_t row = 0; row < 7; ++row) {
      for (std::int64_t column = 0; column < 7; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < 16 * 9; ++k) {
          const std::int64_t c = k / 9, dy = k / 3 % 3, dx = k % 3;
          sum += static_cast<double>(image[static_cast<std::size_t>((c * 9 + row + dy) * 9 + column + dx)]) *
                 static_cast<double>(filters[static_cast<std::size_t>(m * 144 + k)]);
        }
        ASSERT_NEAR(static_cast<double>(made[at++]), sum, 1e-4) << m << " " << row << " " << column;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, BlocksOfChannels, testing::Values(1, 2, 3, 4, 5));

// Two blocks to a tile and a tile of the last one; weights in the order of the sum, its innermost loop unrolled.
TEST(Windows, TilesOfTwoBlocksAndOfOne) {
  auto text = kernels_of(plan_of(image_to_blocks(5), **find_target("avx512")));
  ASSERT_TRUE(text.has_value());
  EXPECT_NE(text->find("t1: f32[5, 16, 3, 3, 16] global"), std::string::npos) << *text;
  EXPECT_NE(text->find("f32[7, 2, 16]"), std::string::npos) << *text;
  EXPECT_NE(text->find("f32[7, 1, 16]"), std::string::npos) << *text;
  std::size_t sums = 0;
  for (std::size_t at = text->find("fma("); at != std::string::npos; at = text->find("fma(", at + 1)) ++sums;
  EXPECT_EQ(sums, 6U) << *text;  // three taps in each
}

}  // namespace
}  // namespace xyntra
