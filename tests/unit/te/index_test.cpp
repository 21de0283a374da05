#include "te/index/index.h"

#include <gtest/gtest.h>

#include <random>

namespace xyntra::te {
namespace {

class IndexTest : public testing::Test {
 protected:
  IndexTest() : builder("f"), b(builder.axis(2, "b")), h(builder.axis(12, "h")), d(builder.axis(64, "d")) {}
  std::string simplified(const Expr& index) {
    const Formula& formula = builder.formula();
    return to_string(formula, IndexAlgebra(formula).simplified(index));
  }
  Builder builder;
  Axis b, h, d;
};

TEST_F(IndexTest, SumsAreCollected) {
  EXPECT_EQ(simplified((b * 12 + h.expr()) * 64 + d.expr()), "b * 768 + h * 64 + d");
  EXPECT_EQ(simplified(h.expr() - h.expr()), "0");
  EXPECT_EQ(simplified(h * 3 + 2 - h * 2), "h + 2");
}

TEST_F(IndexTest, DivisionByWhatIsMultipliedVanishes) {
  Expr linear = (b * 12 + h.expr()) * 64 + d.expr();
  EXPECT_EQ(simplified(floor_div(linear, 64)), "b * 12 + h");
  EXPECT_EQ(simplified(mod(linear, 64)), "d");
  EXPECT_EQ(simplified(mod(floor_div(linear, 64), 12)), "h");
  EXPECT_EQ(simplified(floor_div(linear, 768)), "b");
  EXPECT_EQ(simplified(floor_div(floor_div(linear, 32), 2)), "b * 12 + h");
  EXPECT_EQ(simplified(mod(linear, 128)), "d + mod(h, 2) * 64") << "h and d make up the remainder";
}

TEST_F(IndexTest, WhatWasTakenApartComesTogetherAgain) {
  Axis i = builder.axis(Dim::symbol("n") * 36, "i");
  Expr above = floor_div(i.expr(), 36), digit = mod(floor_div(i.expr(), 6), 6), last = mod(i.expr(), 6);
  EXPECT_EQ(simplified(above * 6 + digit), "floordiv(i, 6)");
  EXPECT_EQ(simplified(digit + above * 6), "floordiv(i, 6)");
  EXPECT_EQ(simplified(above * 36 + digit * 6 + last), "i");
  EXPECT_EQ(simplified(above * 7 + digit), "floordiv(i, 36) * 7 + mod(floordiv(i, 6), 6)");
}

TEST_F(IndexTest, SymbolicSizesDivideToo) {
  Dim n = Dim::symbol("n");
  Axis i = builder.axis(Dim::symbol("m"), "i"), j = builder.axis(n, "j");
  Expr linear = i * Expr::size(n) + j.expr();
  EXPECT_EQ(simplified(floor_div(linear, Expr::size(n))), "i");
  EXPECT_EQ(simplified(mod(linear, Expr::size(n))), "j");
}

// Rows and columns of an image whose sizes are sums, in one index: channels and images go out of both.
TEST_F(IndexTest, SizesThatAreSumsDivideProducts) {
  const Dim rows = floor_div(Dim::symbol("h") - 1, 2) + 1, columns = Dim::symbol("w") + 1;
  const Axis n = builder.axis(Dim::symbol("n"), "n"), c = builder.axis(120, "c"),
             i = builder.axis(rows * columns, "i");
  const Expr linear = (n * 120 + c.expr()) * Expr::size(rows * columns) + i.expr();
  EXPECT_EQ(simplified(floor_div(linear, Expr::size(rows * columns))), "n * 120 + c");
  EXPECT_EQ(simplified(mod(floor_div(linear, Expr::size(columns)), Expr::size(rows))),
            "floordiv(i, (w + 1))");
  EXPECT_EQ(simplified(mod(linear, Expr::size(columns))), "mod(i, (w + 1))");
  const Expr row = floor_div(i.expr(), Expr::size(columns)), column = mod(i.expr(), Expr::size(columns));
  EXPECT_EQ(simplified(row * Expr::size(columns) + column), "i");
}

TEST_F(IndexTest, WhatComesOutEvenLeavesADivision) {
  EXPECT_EQ(simplified(floor_div(b * 10 + h.expr(), 5)), "b * 2 + floordiv(h, 5)");
  EXPECT_EQ(simplified(floor_div(b * 10 + h.expr() + 7, 5)), "b * 2 + floordiv(h + 7, 5)");
  EXPECT_EQ(simplified(floor_div(h * 5 - d.expr(), 5)), "h + floordiv(d * -1, 5)");
}

// Whatever is simplified has the same value at every point.
TEST_F(IndexTest, RandomIndicesKeepTheirValue) {
  std::mt19937_64 random(7);
  auto evaluate = [&](const Expr& expr, const std::map<std::uint32_t, std::int64_t>& at,
                      const auto& self) -> std::int64_t {
    auto operand = [&](std::size_t i) { return self(expr->operands[i], at, self); };
    auto floored = [](std::int64_t a, std::int64_t c) {
      return c == 0 ? 0 : a / c - (a % c != 0 && (a < 0) != (c < 0));
    };
    switch (expr->op) {
      case ExprOp::Const: return expr->int_value;
      case ExprOp::Var: return at.at(expr->var.index);
      case ExprOp::Add: return operand(0) + operand(1);
      case ExprOp::Sub: return operand(0) - operand(1);
      case ExprOp::Mul: return operand(0) * operand(1);
      case ExprOp::FloorDiv: return floored(operand(0), operand(1));
      case ExprOp::Mod:
        return operand(1) == 0 ? 0 : operand(0) - floored(operand(0), operand(1)) * operand(1);
      default: ADD_FAILURE() << "unexpected operation"; return 0;
    }
  };
  auto number = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  const std::int64_t kFactors[] = {1, 2, 3, 4, 6, 12, 64};
  for (int round = 0; round < 500; ++round) {
    std::vector<Expr> pool{b.expr(), h.expr(), d.expr()};
    for (int step = 0; step < 6; ++step) {
      Expr x = pool[static_cast<std::size_t>(number(static_cast<std::int64_t>(pool.size())))];
      Expr y = pool[static_cast<std::size_t>(number(static_cast<std::int64_t>(pool.size())))];
      Expr factor = Expr::index(kFactors[number(7)]);
      switch (number(5)) {
        case 0: pool.push_back(x + y); break;
        case 1: pool.push_back(x - y); break;
        case 2: pool.push_back(x * factor); break;
        case 3: pool.push_back(floor_div(x, factor)); break;
        default: pool.push_back(mod(x, factor)); break;
      }
    }
    Expr simple = IndexAlgebra(builder.formula()).simplified(pool.back());
    for (int point = 0; point < 20; ++point) {
      std::map<std::uint32_t, std::int64_t> at{
          {b.id.index, number(2)}, {h.id.index, number(12)}, {d.id.index, number(64)}};
      ASSERT_EQ(evaluate(pool.back(), at, evaluate), evaluate(simple, at, evaluate))
          << to_string(builder.formula(), pool.back()) << " as " << to_string(builder.formula(), simple);
    }
  }
}

TEST_F(IndexTest, PositionsTellTheirAxes) {
  auto map = PositionMap::of(builder.formula(), {b.expr(), h * 64 + d.expr()}, {b.id, h.id, d.id});
  ASSERT_TRUE(map.has_value());
  EXPECT_TRUE(map->covers({2, 768}));
  EXPECT_FALSE(map->covers({2, 769}));
  Axis p = builder.axis(768, "p");
  Substitution axes = map->axes_at({Expr::index(1), p.expr()});
  EXPECT_EQ(simplified(axes.at(h.id.index)), "floordiv(p, 64)");
  EXPECT_EQ(simplified(axes.at(d.id.index)), "mod(p, 64)");
}

TEST_F(IndexTest, NoPositionMapWithoutAnInverse) {
  const Formula& formula = builder.formula();
  EXPECT_FALSE(PositionMap::of(formula, {h * 2}, {h.id})) << "a stride leaves holes";
  EXPECT_FALSE(PositionMap::of(formula, {h.expr() + d.expr()}, {h.id, d.id})) << "positions meet";
  EXPECT_FALSE(PositionMap::of(formula, {h.expr()}, {h.id, d.id})) << "an axis is missing";
  EXPECT_FALSE(PositionMap::of(formula, {h.expr(), h.expr()}, {h.id})) << "a diagonal";
}

TEST_F(IndexTest, LongSumsAreLookedAtOnce) {
  Expr doubled = d.expr();
  for (int i = 0; i < 40; ++i) doubled = doubled + doubled;
  EXPECT_EQ(simplified(doubled), "d * " + std::to_string(std::int64_t{1} << 40));
}

// Rows of a matrix that was transposed and taken as it lies again and again: every place is a quotient and a remainder of the last one.
TEST_F(IndexTest, LongQuotientsAreLookedAtOnce) {
  Expr row = h.expr(), column = d.expr();
  for (int i = 0; i < 40; ++i) {
    const Expr place = column * 12 + row;
    row = floor_div(place, 64);
    column = mod(place, 64);
  }
  const Formula& formula = builder.formula();
  const IndexAlgebra algebra(formula);
  EXPECT_TRUE(algebra.within(algebra.simplified(row), 0, 12));
  EXPECT_TRUE(algebra.within(algebra.simplified(column), 0, 64));
}

}  // namespace
}  // namespace xyntra::te
