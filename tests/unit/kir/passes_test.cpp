// Passes: what they make of small kernels, and that no kernel of tests/kir changes its result by them.
#include "kir/passes.h"

#include "unit/kir/cases.h"

namespace xyntra::kir {
namespace {

// The body's text, without the kernel around it and the indent.
std::string body_of(const Kernel& kernel) {
  std::string text = to_string(kernel);
  return text.substr(text.find('\n') + 1);
}
std::string after(Kernel (*pass)(const Kernel&), const std::string& body) {
  return body_of(
      pass(parsed("kernel k(x: f32[4, 64], i: i64[4], y: f32[4, 64] global out) {\n" + body + "}\n")));
}
Kernel unrolled(const Kernel& kernel) { return unroll(kernel); }

TEST(KirPasses, SimplifyShortensIndices) {
  EXPECT_EQ(
      after(
          simplify,
          "grid a < 4 { for b < 64 { y[floordiv(a * 64 + b, 64), mod(a * 64 + b, 64)] = x[a + 0 * b, b] } }"),
      "  grid a < 4 {\n    for b < 64 {\n      y[a, b] = x[a, b]\n    }\n  }\n}\n");
}

TEST(KirPasses, SimplifyDropsWhatIsKnown) {
  EXPECT_EQ(after(simplify,
                  "grid a < 4 { for b < 16 { vector l < 4 { if b * 4 + l < 64 { y[a, b * 4 + l] = 1 } } } }"),
            "  grid a < 4 {\n    for b < 16 {\n      vector l < 4 {\n        y[a, b * 4 + l] = 1.0\n      "
            "}\n    }\n  }\n}\n");
  EXPECT_EQ(after(simplify,
                  "grid a < 4 { if a > 3 { y[a, 0] = 1 } else { y[a, 1] = select(a >= 0, x[a, 1], 2) } }"),
            "  grid a < 4 {\n    y[a, 1] = x[a, 1]\n  }\n}\n");
  EXPECT_EQ(after(simplify,
                  "grid a < 4 { for b < 1 { check x.0 : a + b\ncheck x.0 : i[a]\ny[a, b] = x[i[a], b] } }"),
            "  grid a < 4 {\n    check x.0 : i[a]\n    y[a, 0] = x[i[a], 0]\n  }\n}\n");
  EXPECT_EQ(after(simplify, "grid a < 4 { if (a < 4) & (i[a] < 4) { y[a, 0] = 1 } }"),
            "  grid a < 4 {\n    if i[a] < 4 {\n      y[a, 0] = 1.0\n    }\n  }\n}\n");
  // Where threads go on after a check, a condition stays.
  EXPECT_NE(
      after(simplify,
            "grid a < 4 { thread t < 4 { check x.0 : i[t]\nbarrier()\ny[a, t] = select(i[t] >= 0 & i[t] < 4, "
            "x[i[t], 0], 0) } }")
          .find("select(i[t] >= 0 & i[t] < 4"),
      std::string::npos);
  // A second check of what was checked.
  EXPECT_EQ(after(simplify, "grid a < 4 { check x.0 : i[a]\ncheck x.0 : i[a]\ny[a, 0] = 1 }"),
            "  grid a < 4 {\n    check x.0 : i[a]\n    y[a, 0] = 1.0\n  }\n}\n");
}

TEST(KirPasses, UnrollWritesLoopsOut) {
  EXPECT_EQ(after(unrolled, "grid a < 4 { unrolled u < 2 { unrolled v < 2 { y[a, u * 2 + v] = x[a, u] } } }"),
            "  grid a < 4 {\n    y[a, 0] = x[a, 0]\n    y[a, 1] = x[a, 0]\n    y[a, 2] = x[a, 1]\n    y[a, "
            "3] = x[a, 1]\n  }\n}\n");
}

TEST(KirPasses, HoistMovesWhatStaysTheSame) {
  EXPECT_EQ(
      after(hoist, "grid a < 4 { for b < 64 { if a < 3 { y[a, b] = 1 } else { y[a, b] = 2 } } }"),
      "  grid a < 4 {\n    if a < 3 {\n      for b < 64 {\n        y[a, b] = 1.0\n      }\n    } else {\n"
      "      for b < 64 {\n        y[a, b] = 2.0\n      }\n    }\n  }\n}\n");
  EXPECT_EQ(after(hoist, "register r: f32[1]\ngrid a < 4 { for b < 64 { r[0] = x[a, 0]\ny[a, b] = r[0] } }"),
            "  register r: f32[1]\n  grid a < 4 {\n    r[0] = x[a, 0]\n    for b < 64 {\n      y[a, b] = "
            "r[0]\n    }\n  }\n}\n");
  // What differs between iterations, what is written twice, and what is read back stay.
  for (const char* body :
       {"r[0] = x[a, b]\ny[a, b] = r[0]", "r[0] = 1\nr[0] = r[0] + x[a, b]\ny[a, b] = r[0]",
        "y[a, b] = r[0]\nr[0] = x[a, 0]", "r[0] = r[0] + 1\ny[a, b] = r[0]"}) {
    std::string loop = "register r: f32[1]\ngrid a < 4 { for b < 64 { " + std::string(body) + " } }";
    Kernel same = parsed("kernel k(x: f32[4, 64], i: i64[4], y: f32[4, 64] global out) {\n" + loop + "}\n");
    EXPECT_EQ(after(hoist, loop), body_of(same));
  }
}

TEST(KirPasses, ResultsStayTheSame) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.file);
    Kernel kernel = parsed(kernel_text(one.file));
    Arguments plain = one.arguments();
    ASSERT_EQ(run(kernel, plain, one.sizes), "");
    for (const Kernel& changed :
         {simplify(kernel), unroll(kernel), hoist(kernel), simplify(hoist(unroll(simplify(kernel))))}) {
      Status verified = verify(changed);
      ASSERT_TRUE(verified) << verified.error().message << to_string(changed);
      Arguments arguments = one.arguments();
      ASSERT_EQ(run(changed, arguments, one.sizes), "") << to_string(changed);
      EXPECT_EQ(arguments.get<std::uint8_t>(plain.count() - 1), plain.get<std::uint8_t>(plain.count() - 1));
    }
  }
}

}  // namespace
}  // namespace xyntra::kir
