// Sorting and selection on more elements than one piece of the interruptible sort holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "interp/evaluator.h"

namespace xyntra {
namespace {

std::vector<Datum> run_node(const std::string& op, const std::vector<Tensor>& operands, std::size_t outputs,
                            Attributes attributes = {}) {
  Graph graph;
  std::vector<ValueId> ids;
  std::vector<Datum> data;
  for (const Tensor& operand : operands) {
    ids.push_back(graph.add_input("x" + std::to_string(ids.size()), Type::tensor(operand.dtype())));
    data.push_back(Datum::of(operand));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs; ++i) names.push_back("y" + std::to_string(i));
  NodeId node = graph.add_node(op, ids, names, std::move(attributes), "node");
  graph.outputs = graph.node(node).outputs;
  auto results = Evaluator::create(graph, {}).value().run(data);
  EXPECT_TRUE(results.has_value()) << results.error().to_string();
  return results.value_or(std::vector<Datum>(outputs));
}

// Many different numbers in no order, some of them twice.
std::vector<std::int32_t> scattered(std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::uint32_t state = 1;
  for (std::int32_t& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<std::int32_t>(state >> 12) - (1 << 19);
  }
  return values;
}

constexpr std::size_t kMany = 100'000;

TEST(Selection, TopKOfALongLine) {
  const auto values = scattered(kMany);
  const auto x = Tensor::from<std::int32_t>(DType::I32, {kMany}, values);
  std::vector<std::int64_t> order(kMany);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  for (std::int64_t k : {std::int64_t{0}, std::int64_t{10}, std::int64_t{40'000}, std::int64_t{kMany}}) {
    const auto results = run_node("TopK", {x, Tensor::of_integers(std::vector{k})}, 2);
    const std::vector<std::int64_t> expected(order.begin(), order.begin() + k);
    EXPECT_EQ(results.at(1).tensor.to_integers(), expected) << k;
  }
}

TEST(Selection, UniqueOfManyElements) {
  const auto values = scattered(kMany);
  const auto results = run_node("Unique", {Tensor::from<std::int32_t>(DType::I32, {kMany}, values)}, 4);
  std::vector<std::int64_t> expected(values.begin(), values.end());
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  const auto distinct = results.at(0).tensor.to_integers();
  EXPECT_EQ(distinct, expected);
  const auto first = results.at(1).tensor.to_integers(), inverse = results.at(2).tensor.to_integers(),
             counts = results.at(3).tensor.to_integers();
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), std::int64_t{kMany});
  for (std::size_t i = 0; i < kMany; ++i) {
    const auto group = static_cast<std::size_t>(inverse.at(i));
    ASSERT_EQ(distinct.at(group), values.at(i));
    ASSERT_LE(first.at(group), static_cast<std::int64_t>(i));
  }
}

TEST(Selection, UniqueSlicesInTheOrderTheyAppear) {
  const std::vector<float> columns = {3, 1, 3, 1, 2,  //
                                      5, 0, 5, 9, 2};
  const auto results = run_node("Unique", {Tensor::from<float>(DType::F32, {2, 5}, columns)}, 4,
                                {{"axis", std::int64_t{1}}, {"sorted", std::int64_t{0}}});
  EXPECT_EQ(results.at(0).tensor.to_integers(), (std::vector<std::int64_t>{3, 1, 1, 2, 5, 0, 9, 2}));
  EXPECT_EQ(results.at(1).tensor.to_integers(), (std::vector<std::int64_t>{0, 1, 3, 4}));
  EXPECT_EQ(results.at(2).tensor.to_integers(), (std::vector<std::int64_t>{0, 1, 0, 2, 3}));
  EXPECT_EQ(results.at(3).tensor.to_integers(), (std::vector<std::int64_t>{2, 1, 1, 1}));
}

// Comparisons with NaN order nothing: sorting by them could write anywhere.
TEST(Selection, ScoresThatAreNotNumbersAreSorted) {
  constexpr std::int64_t kBoxes = 1000;
  std::vector<float> scores(kBoxes), boxes(4 * kBoxes);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i);
  }
  const auto results = run_node("NonMaxSuppression",
                                {Tensor::from<float>(DType::F32, {1, kBoxes, 4}, boxes),
                                 Tensor::from<float>(DType::F32, {1, 1, kBoxes}, scores),
                                 Tensor::of_integers(std::vector<std::int64_t>{kBoxes})},
                                1);
  EXPECT_EQ(results.at(0).tensor.dims(), (Dims{kBoxes, 3}));
}

TEST(Selection, ManyOperandsAreAddedInStages) {
  const std::vector<Tensor> operands(1000, Tensor::from<float>(DType::F32, {2}, std::vector<float>{1, 2}));
  EXPECT_EQ(run_node("Sum", operands, 1).at(0).tensor.to_integers(), (std::vector<std::int64_t>{1000, 2000}));
}

}  // namespace
}  // namespace xyntra
