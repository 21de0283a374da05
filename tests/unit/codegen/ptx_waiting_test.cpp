// Where a kernel waits for the launches before it: constants are read without, results are not, nor is anything written.
#include <gtest/gtest.h>

#include "codegen/ptx/emit.h"

namespace xyntra {
namespace {

std::string ptx_of(const std::string& body, std::vector<bool> constants) {
  const auto kernel = kir::parse_kernel(
      "kernel k(w: f32[64] global, x: f32[64] global, y: f32[64] global out) {\n"
      "  register a: f32[2]\n  grid i < 2 {\n    thread t < 32 {\n" +
          body + "\n    }\n  }\n}\n",
      "waiting");
  EXPECT_TRUE(kernel.has_value()) << kernel.error().to_string();
  const PtxOptions options{"sm_90", "7.8", true, 132, std::move(constants)};
  const auto made = emit_ptx(*kernel, options);
  EXPECT_TRUE(made.has_value()) << made.error().to_string();
  return made->text;
}

// Loads before the wait, loads and stores after it; there is one wait.
struct Order {
  int before = 0, after = 0;
};
Order order_of(const std::string& text) {
  const std::size_t wait = text.find("griddepcontrol.wait");
  EXPECT_NE(std::string::npos, wait);
  EXPECT_EQ(std::string::npos, text.find("griddepcontrol.wait", wait + 1));
  EXPECT_LT(text.find("griddepcontrol.launch_dependents"), wait);
  Order order;
  for (const char* access : {"ld.global", "st.global"}) {
    for (std::size_t at = text.find(access); at != std::string::npos; at = text.find(access, at + 1))
      ++(at < wait ? order.before : order.after);
  }
  return order;
}

constexpr const char* kBoth = R"(a[0] = w[i * 32 + t]
a[1] = x[i * 32 + t]
y[i * 32 + t] = a[0] + a[1])";

TEST(PtxWaiting, ConstantsAreReadBefore) {
  const Order order = order_of(ptx_of(kBoth, {true, false}));
  EXPECT_EQ(1, order.before);
  EXPECT_EQ(2, order.after);
}

TEST(PtxWaiting, WhatMayBeAResultIsReadAfter) {
  for (const std::vector<bool>& constants : {std::vector<bool>{}, {false, true}, {false}}) {
    const Order order = order_of(ptx_of(kBoth, constants));
    EXPECT_EQ(0, order.before);
    EXPECT_EQ(3, order.after);
  }
}

// Also where it is inside of a branch or a loop: all threads wait at one place, before it.
TEST(PtxWaiting, OutsideOfBranchesAndLoops) {
  const Order order = order_of(ptx_of(R"(a[0] = w[i * 32 + t]
for k < 2 { if t < 7 { a[0] = a[0] + x[k * 32 + t] } }
y[i * 32 + t] = a[0])",
                                      {true}));
  EXPECT_EQ(1, order.before);
  EXPECT_EQ(2, order.after);
}

TEST(PtxWaiting, NothingIsWrittenBefore) {
  const Order order = order_of(ptx_of("y[i * 32 + t] = w[i * 32 + t]", {true, true}));
  EXPECT_EQ(0, order.before);
  EXPECT_EQ(2, order.after);
}

// Of many blocks, the next launch is let in when they end.
TEST(PtxWaiting, ManyBlocksLetNobodyInBefore) {
  for (const auto& [blocks, lets_in] : {std::pair{"132", true}, {"133", false}, {"N", false}}) {
    const auto kernel =
        kir::parse_kernel(std::string("kernel k(y: f32[") + blocks + ", 32] global out) { grid i < " +
                              blocks + " { thread t < 32 { y[i, t] = 1.0 } } }",
                          "blocks");
    ASSERT_TRUE(kernel.has_value()) << kernel.error().to_string();
    const auto made = emit_ptx(*kernel, {"sm_90", "7.8", true, 132});
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(lets_in, made->text.find("griddepcontrol.launch_dependents") != std::string::npos) << blocks;
  }
}

TEST(PtxWaiting, NotWhereLaunchesDoNotOverlap) {
  const auto kernel =
      kir::parse_kernel("kernel k(y: f32[8] global out) { grid i < 8 { y[i] = 1.0 } }", "one");
  const auto made = emit_ptx(*kernel, {});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(std::string::npos, made->text.find("griddepcontrol"));
}

}  // namespace
}  // namespace xyntra
