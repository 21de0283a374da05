#include <gtest/gtest.h>

#include "kir/passes.h"

namespace xyntra::kir {
namespace {

Kernel parsed(const char* text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel) << kernel.error().message;
  return kernel ? std::move(*kernel) : Kernel();
}

// Two sizes that are equal in every run of a model, which nothing here says.
TEST(Guard, WhatIsNotShownToBeInBoundsIsAsked) {
  const Kernel open = parsed(
      "kernel k(x: f32[n] global, y: f32[m] global out) { grid i < m { for j < n { y[i] = x[i] + x[j] } } }");
  ASSERT_FALSE(verify(open));
  const Kernel guarded = guard(open);
  EXPECT_TRUE(verify(guarded)) << to_string(guarded);
  const std::string text = to_string(guarded);
  EXPECT_NE(text.find("check x.0 : i"), std::string::npos) << text;
  EXPECT_NE(text.find("select(i >= 0 & i < n, x[i], 0.0) + x[j]"), std::string::npos) << text;
}

TEST(Guard, AStoreIsMadeWhereItIsInBounds) {
  const Kernel open =
      parsed("kernel k(x: f32[n] global, y: f32[m] global out) { grid i < n { y[i] = x[i] } }");
  ASSERT_FALSE(verify(open));
  EXPECT_TRUE(verify(guard(open))) << to_string(guard(open));
}

// What is read on one side of a select alone may be out of bounds where the other one is taken: no reason to end a run.
TEST(Guard, WhatIsReadUnderAConditionIsNotChecked) {
  const Kernel open = parsed(
      "kernel k(x: f32[n] global, y: f32[m] global out) { grid i < m { y[i] = select(n > 4, x[i], 1.0) } }");
  const Kernel guarded = guard(open);
  EXPECT_TRUE(verify(guarded)) << to_string(guarded);
  EXPECT_EQ(to_string(guarded).find("check"), std::string::npos) << to_string(guarded);
}

TEST(Guard, AKernelThatIsRightStaysAsItIs) {
  const Kernel right =
      parsed("kernel k(x: f32[n] global, y: f32[n] global out) { grid i < n { y[i] = x[i] } }");
  EXPECT_EQ(to_string(guard(right)), to_string(right));
}

}  // namespace
}  // namespace xyntra::kir
