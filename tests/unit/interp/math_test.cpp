// The evaluator computes math ops by their definitions in te: the same bits as an independent evaluation of them.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "interp/evaluator.h"
#include "math/block_evaluator.h"
#include "te/math/math.h"

namespace xyntra {
namespace {

using te::testing::argument;
using te::testing::BlockEvaluator;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
std::vector<T> arguments_of_every_size(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(BlockEvaluator::kLanes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 2 == 0 ? std::bit_cast<T>(static_cast<Bits<T>>(random()))
                           : static_cast<T>(std::uniform_real_distribution<double>(-4, 4)(random));
  }
  return values;
}

// The op on the whole vector, through a graph of one node.
template <class T>
std::vector<T> evaluated(const char* op, DType dtype, const std::vector<std::vector<T>>& operands) {
  Graph graph;
  std::vector<ValueId> ids;
  std::vector<Datum> data;
  for (const std::vector<T>& operand : operands) {
    ids.push_back(graph.add_input("x" + std::to_string(ids.size()), Type::tensor(dtype)));
    data.push_back(Datum::of(Tensor::from<T>(dtype, {static_cast<std::int64_t>(operand.size())}, operand)));
  }
  graph.outputs.push_back(graph.output_of(graph.add_node(op, ids, {"y"}, {}, "node")));
  auto evaluator = Evaluator::create(graph);
  EXPECT_TRUE(evaluator.has_value()) << evaluator.error().to_string();
  auto results = evaluator->run(data);
  EXPECT_TRUE(results.has_value()) << results.error().to_string();
  auto view = results->at(0).tensor.template view<T>();
  return {view.begin(), view.end()};
}

template <class T>
void expect_same_bits(const char* op, DType dtype, te::ExprOp math, std::size_t operand_count) {
  std::vector<std::vector<T>> operands;
  std::vector<te::Expr> formula_operands;
  for (std::size_t i = 0; i < operand_count; ++i) {
    operands.push_back(arguments_of_every_size<T>(static_cast<unsigned>(i)));
    formula_operands.push_back(argument(static_cast<int>(i), dtype));
  }
  BlockEvaluator direct(te::expand(math, formula_operands));
  std::vector<BlockEvaluator::Lanes<T>> lanes(operand_count);
  std::vector<const BlockEvaluator::Lanes<T>*> pointers;
  for (std::size_t i = 0; i < operand_count; ++i) {
    std::copy(operands[i].begin(), operands[i].end(), lanes[i].begin());
    pointers.push_back(&lanes[i]);
  }
  const auto& expected = direct.run<T>(pointers);
  std::vector<T> results = evaluated<T>(op, dtype, operands);
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i] != results[i] && expected[i] != expected[i]) continue;
    EXPECT_EQ(std::bit_cast<Bits<T>>(results[i]), std::bit_cast<Bits<T>>(expected[i]))
        << op << "(" << operands[0][i] << ") = " << results[i] << ", not " << expected[i];
  }
}

TEST(EvaluatorMath, AgreesWithTheDefinitionsToTheBit) {
  struct Case {
    const char* op;
    te::ExprOp math;
    std::size_t operands = 1;
  };
  const Case cases[] = {
      {"Exp", te::ExprOp::Exp},     {"Log", te::ExprOp::Log},         {"Erf", te::ExprOp::Erf},
      {"Tanh", te::ExprOp::Tanh},   {"Sigmoid", te::ExprOp::Sigmoid}, {"Sin", te::ExprOp::Sin},
      {"Cos", te::ExprOp::Cos},     {"Tan", te::ExprOp::Tan},         {"Asin", te::ExprOp::Asin},
      {"Acos", te::ExprOp::Acos},   {"Atan", te::ExprOp::Atan},       {"Sinh", te::ExprOp::Sinh},
      {"Cosh", te::ExprOp::Cosh},   {"Asinh", te::ExprOp::Asinh},     {"Acosh", te::ExprOp::Acosh},
      {"Atanh", te::ExprOp::Atanh}, {"Pow", te::ExprOp::Pow, 2},
  };
  for (const Case& test : cases) {
    expect_same_bits<float>(test.op, DType::F32, test.math, test.operands);
    expect_same_bits<double>(test.op, DType::F64, test.math, test.operands);
  }
}

}  // namespace
}  // namespace xyntra
