// Work beside other work: its result, its exceptions and its limits come back.
#include "support/limits/background.h"

#include <gtest/gtest.h>

namespace xyntra {
namespace {

TEST(Background, GivesItsResult) {
  auto sum = in_background([] { return 1 + 2; });
  EXPECT_EQ(3, sum.get());
}

TEST(Background, ThrowsWhereItIsWaitedFor) {
  auto broken = in_background([]() -> int { internal_error("broken"); });
  EXPECT_THROW(broken.get(), InternalError);
}

TEST(Background, HasTheBudgetOfItsCaller) {
  const Budget budget;
  const BudgetScope scope(&budget);
  EXPECT_EQ(&budget, in_background([] { return current_budget(); }).get());
}

}  // namespace
}  // namespace xyntra
