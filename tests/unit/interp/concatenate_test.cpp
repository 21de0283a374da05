// Long concatenations are copies of memory; they give what the formula gives, wherever operands lie.
#include "interp/concatenate.h"

#include <gtest/gtest.h>

#include "interp/evaluator.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

struct Parts {
  DType dtype;
  std::vector<Dims> dims;
  std::int64_t axis;
};

// Bytes that begin at an odd address, as they do in a protobuf.
Tensor part_of(DType dtype, const Dims& dims, unsigned seed) {
  std::int64_t count = 1;
  for (const std::int64_t size : dims) count *= size;
  const auto size = static_cast<std::size_t>(count * bits_of(dtype) / 8);
  auto bytes = std::make_shared<std::vector<std::byte>>(size + 1);
  for (std::byte& byte : *bytes)
    byte = static_cast<std::byte>((seed = seed * 1103515245 + 12345) >> 16 & 0x3f);
  return *Tensor::borrow(dtype, dims, std::span(*bytes).subspan(1), bytes);
}

class Concatenation : public testing::TestWithParam<Parts> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Concatenation,
                         testing::Values(Parts{DType::F32, {{64, 40}, {64, 3}, {64, 80}}, 1},
                                         Parts{DType::F32, {{64, 40}, {64, 3}, {64, 80}}, -1},
                                         Parts{DType::F32, {{100, 70}, {1, 70}}, 0},
                                         Parts{DType::I8, {{3, 50, 40}, {3, 7, 40}, {3, 0, 40}}, 1},
                                         Parts{DType::BF16, {{9000}, {1}, {5}}, 0},
                                         Parts{DType::I64, {{4, 8, 90}, {4, 8, 91}}, -1}));

TEST_P(Concatenation, GivesWhatTheFormulaGives) {
  const Parts& parts = GetParam();
  Graph graph;
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < parts.dims.size(); ++i)
    operands.push_back(graph.add_constant("p" + std::to_string(i),
                                          part_of(parts.dtype, parts.dims[i], 7 + static_cast<unsigned>(i))));
  graph.outputs = {graph.output_of(graph.add_node("Concat", operands, {"y"}, {{"axis", parts.axis}}))};
  ASSERT_TRUE(infer_types(graph).has_value());
  auto evaluator = Evaluator::create(graph, {});
  ASSERT_TRUE(evaluator.has_value());
  const auto made = evaluator->run({});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const Tensor& whole = (*made)[0].tensor;
  const Dims& dims = parts.dims[0];
  const std::size_t axis =
      static_cast<std::size_t>(parts.axis < 0 ? parts.axis + std::ssize(dims) : parts.axis);
  std::int64_t rows = 1, inner = 1;
  for (std::size_t d = 0; d < axis; ++d) rows *= dims[d];
  for (std::size_t d = axis + 1; d < dims.size(); ++d) inner *= dims[d];
  const std::int64_t width = whole.dims()[axis] * inner;
  for (std::int64_t row = 0, offset = 0; row < rows; ++row, offset = 0) {
    for (std::size_t i = 0; i < parts.dims.size(); ++i) {
      const Tensor part = graph.value(operands[i]).constant.aligned();
      const std::int64_t length = parts.dims[i][axis] * inner;
      for (std::int64_t e = 0; e < length; ++e)
        ASSERT_EQ(whole.element_as_f64(row * width + offset + e), part.element_as_f64(row * length + e));
      offset += length;
    }
  }
}

TEST(Concatenation, LeavesOthersToTheFormula) {
  Graph graph;
  const ValueId x = graph.add_constant("x", part_of(DType::F32, {4, 4}, 1));
  const NodeId node = graph.add_node("Concat", {x, x}, {"y"}, {{"axis", std::int64_t{0}}});
  const std::vector<Datum> operands(2, Datum::of(graph.value(x).constant));
  EXPECT_FALSE(concatenated(graph.node(node), operands, ThreadPool::shared(), nullptr).has_value());  // short
  const std::vector<Datum> absent(2);
  EXPECT_FALSE(concatenated(graph.node(node), absent, ThreadPool::shared(), nullptr).has_value());
}

}  // namespace
}  // namespace xyntra
