#include "te/math/random.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

// What an expression of constants is worth: integer operations only, enough for the generator's rounds.
std::uint64_t value_of(const Expr& expr) {
  const ExprNode& node = *expr;
  auto operand = [&node](std::size_t i) { return value_of(node.operands[i]); };
  switch (node.op) {
    case ExprOp::Const: return static_cast<std::uint64_t>(node.int_value);
    case ExprOp::Cast: return operand(0);
    case ExprOp::Mul: return operand(0) * operand(1);
    case ExprOp::Xor: return operand(0) ^ operand(1);
    case ExprOp::And: return operand(0) & operand(1);
    case ExprOp::ShiftRight: return operand(0) >> operand(1);
    default: ADD_FAILURE() << "unexpected " << spelling_of(node.op); return 0;
  }
}

// The generator's published test vector for counter 0 and key 0.
TEST(Random, IsPhilox) {
  RandomWords words = random_words(0, Expr::index(0));
  const std::uint64_t kExpected[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(value_of(words[i]), kExpected[i]) << i;
}

TEST(Random, KeysDifferByNodeAndSeed) {
  EXPECT_EQ(random_key(1, "a"), random_key(1, "a"));
  EXPECT_NE(random_key(1, "a"), random_key(2, "a"));
  EXPECT_NE(random_key(1, "a"), random_key(1, "b"));
}

TEST(Random, PrintsWithoutRepeatingItsRounds) {
  Builder builder("random");
  Axes i = builder.axes({4});
  Buffer y = builder.output(0, "y", DType::F32, {4});
  builder.write(y, i, random_uniform(DType::F32, 7, linear_index(i)));
  std::string text = to_string(std::move(builder).finish());
  EXPECT_LT(text.size(), 6000u);
  EXPECT_NE(text.find("let v0 = "), std::string::npos);
}

}  // namespace
}  // namespace xyntra::te
