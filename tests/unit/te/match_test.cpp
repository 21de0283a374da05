#include "te/match.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

Expr v(std::size_t index) { return Expr::variable(VarId(index)); }

TEST(Match, variables_stand_for_expressions) {
  Substitution bound;
  EXPECT_TRUE(matches(v(0) * 2 + v(1), v(5) * 2 + (v(6) + 1), bound));
  EXPECT_TRUE(same(bound.at(0), v(5)));
  EXPECT_TRUE(same(bound.at(1), v(6) + 1));
  EXPECT_TRUE(matches(v(1), v(6) + 1, bound)) << "what is bound stays so";
  EXPECT_FALSE(matches(v(1), v(6), bound));
}

TEST(Match, everything_else_is_the_same) {
  Substitution bound;
  EXPECT_FALSE(matches(v(0) * 2, v(5) * 3, bound));
  bound.clear();
  EXPECT_FALSE(matches(v(0) * 2, v(5) + 2, bound));
  bound.clear();
  EXPECT_FALSE(matches(v(0) + v(0), v(5) + v(6), bound)) << "one variable, two meanings";
  bound.clear();
  EXPECT_FALSE(matches(Expr::index(0), Expr::index(1), bound));
  EXPECT_TRUE(matches(Expr::index(1), Expr::index(1), bound));
  EXPECT_TRUE(bound.empty());
}

}  // namespace
}  // namespace xyntra::te
