// Kernel text: what is printed reads back as the same kernel; what cannot be read says where and why.
#include <gtest/gtest.h>

#include "kir/kernel.h"
#include "te/walk.h"

namespace xyntra::kir {
namespace {

bool same_statement(const Stmt& a, const Stmt& b) {
  if (a->kind != b->kind || a->loop != b->loop || a->body.size() != b->body.size()) return false;
  if (a->index.size() != b->index.size() || a->operands.size() != b->operands.size()) return false;
  std::vector<Expr> left, right;
  for_each_expr(*a, [&](const Expr& e) { left.push_back(e); });
  for_each_expr(*b, [&](const Expr& e) { right.push_back(e); });
  if (left.size() != right.size() || a->dimension != b->dimension || a->intrinsic != b->intrinsic)
    return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!te::same(left[i], right[i])) return false;
  }
  for (std::size_t i = 0; i < a->body.size(); ++i) {
    if (!same_statement(a->body[i], b->body[i])) return false;
  }
  return true;
}

void expect_round_trip(const std::string& text) {
  auto kernel = parse_kernel(text);
  ASSERT_TRUE(kernel) << kernel.error().message;
  std::string printed = to_string(*kernel);
  auto again = parse_kernel(printed);
  ASSERT_TRUE(again) << again.error().message << "\n" << printed;
  EXPECT_EQ(to_string(*again), printed);
  EXPECT_TRUE(same_statement(kernel->body, again->body)) << printed;
}

TEST(KirText, TheExampleOfTheHeaderReads) {
  const std::string text =
      "kernel add_rows(x: f32[N, 64] global, y: f32[N, 64] global out) {\n"
      "  grid i < N {\n"
      "    for j < 4 {\n"
      "      vector l < 16 {\n"
      "        y[i, j * 16 + l] = x[i, j * 16 + l] + 1.0\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n";
  auto kernel = parse_kernel(text);
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(to_string(*kernel), text);
  EXPECT_TRUE(verify(*kernel));
  EXPECT_EQ(phases_of(*kernel).at(0).grid.size(), 1U);
}

TEST(KirText, EverythingRoundTrips) {
  expect_round_trip(R"(
kernel all(x: f32[N, 64], idx: i32[N], h: f16[N] global, b: u64[4], y: f32[N, 64] global out) {
  workspace w: f32[floordiv(N + 15, 16), 4]
  shared s: bf16[2, 64, 64] swizzle 128
  shared bar: u64[2]
  register r: f32[4]
  register max: f32[1]
  register t: f32[16, 16]
  grid i < N {  // a comment
    unrolled u < 4 { r[u] = 0 }
    check x.0 : i64(idx[i])
    if i < N - 1 & ~(i == 3) | i >= size(2*N - 7) {
      r[0] = fma(x[i64(idx[i]), 0], -x[i, 1], select(i < 3, 1.5e-3, -inf))
    } else {
      r[0] = f32(h[i] + 1.5_f16) * f32(b[3] >> 18446744073709551615_u64) - -2.5 / min(r[1], nan)
    }
    max[0] = max(r[0], max[0])
    r[1] = load_or(x[i - 1, 5], r[0] * (r[0] * 2.0))
    r[2] = exp(r[1]) + bits_f32(idx[i]) + f32(f8e8m0(r[1], overflow, down))
    r[3] = f32(mod(i, 4) - floordiv(i, size(N*3)) + (i - (3 - i)))
    mbarrier_wait(bar[mod(i, 2)], floordiv(i, 2) & 1)
    tile_zero(t[0, 0])
    barrier()
    if isnan(r[0]) { y[i, 0] = f32(true) }
    y[i, 1] = -(1.0)
  }
}
)");
}

TEST(KirText, SharedPartsAreWrittenOnceAndStayShared) {
  Kernel kernel;
  kernel.name = "rounds";
  BufferId y = add_buffer(kernel, {.name = "y", .dtype = DType::U64, .shape = {8}, .written = true});
  VarId i = add_variable(kernel, "i", 8);
  Expr value = te::cast(DType::U64, Expr::variable(i));
  for (int round = 0; round < 40; ++round) value = (value * value) ^ (value >> Expr::integer(DType::U64, 7));
  kernel.body = Stmt::loop(LoopKind::Grid, i, Stmt::store(y, {Expr::variable(i)}, value));
  std::string text = to_string(kernel);
  EXPECT_LT(text.size(), 8000U);
  auto again = parse_kernel(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_string(*again), text);
  std::size_t nodes = 0;
  te::for_each_node(again->body->body.front()->value, [&](const te::ExprNode&) { ++nodes; });
  EXPECT_LT(nodes, 600U);
}

TEST(KirText, NamesThatWouldBeConfusedAreChanged) {
  Kernel kernel;
  kernel.name = "names";
  BufferId x = add_buffer(kernel, {.name = "x", .shape = {Dim::symbol("i"), Dim::symbol("x")}});
  BufferId y = add_buffer(kernel, {.name = "y", .shape = {Dim::symbol("a b"), 4}, .written = true});
  VarId a = add_variable(kernel, "i", Dim::symbol("i")), b = add_variable(kernel, "i", 4);
  VarId c = add_variable(kernel, "x", Dim::symbol("a b"));
  Expr value = Expr::load(x, DType::F32, {Expr::variable(a), Expr::size(Dim::symbol("x")) - 1}) +
               te::cast(DType::F32, Expr::size(Dim::symbol("a b")) + Expr::size(Dim::symbol("unseen")));
  kernel.body = Stmt::loop(
      LoopKind::Grid, a,
      Stmt::loop(
          LoopKind::Grid, b,
          Stmt::loop(LoopKind::Serial, c, Stmt::store(y, {Expr::variable(c), Expr::variable(b)}, value))));
  std::string text = to_string(kernel);
  auto again = parse_kernel(text);
  ASSERT_TRUE(again) << again.error().message << text;
  EXPECT_EQ(to_string(*again), text);
}

TEST(KirText, ErrorsSayWhere) {
  auto message = [](const std::string& text) {
    auto kernel = parse_kernel(text);
    return kernel ? "" : kernel.error().message;
  };
  EXPECT_EQ(message("kernel"), "line 1, column 7: expected the kernel's name");
  EXPECT_EQ(message("kernel k(x: f31[4]) {}"), "line 1, column 13: expected a dtype");
  const std::string head = "kernel k(x: f32[4], y: f32[4] global out) {\n  grid i < 4 {\n    ";
  EXPECT_EQ(message(head + "y[i] = x[j]\n  }\n}\n"), "line 3, column 14: nothing is called 'j' here");
  EXPECT_EQ(message(head + "y[i] = i\n  }\n}\n"), "line 3, column 12: expected f32, this is i64");
  EXPECT_EQ(message(head + "y[x[i]] = 1\n  }\n}\n"), "line 3, column 7: expected i64, this is f32");
  EXPECT_EQ(message(head + "z[i] = 1\n  }\n}\n"), "line 3, column 5: expected a buffer");
  EXPECT_EQ(message(head + "y[i] = x[i] +\n  }\n}\n"), "line 4, column 3: expected an expression");
  EXPECT_EQ(message(head + "grid i < 4 {}"), "line 3, column 10: this name is taken");
  EXPECT_EQ(message(head + "y[i] = 1"), "line 3, column 13: expected '}'");
  EXPECT_EQ(message(head + "check x.1 : i"), "line 3, column 13: expected a dimension of the buffer");
  EXPECT_EQ(message(head + "y[i] = %3"), "line 3, column 12: no let gives this name");
  EXPECT_EQ(message(head + "y[i] = $"), "line 3, column 12: unexpected character");
  EXPECT_EQ(message(head + "y[i] = select(i, 1, 2)"), "line 3, column 12: select needs a bool first");
  EXPECT_NE(message(head + "y[i] = " + std::string(10000, '(')), "");
  EXPECT_NE(message(head + "y[i] = " + std::string(10000, '-') + "i"), "");
  std::string deep = "kernel k() {";
  for (int i = 0; i < 10000; ++i) deep += "if true {";
  EXPECT_NE(message(deep), "");
}

}  // namespace
}  // namespace xyntra::kir
