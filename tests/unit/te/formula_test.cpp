// The verifier of formulas refuses what a definition could get wrong, and says so.
#include "te/formula.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

std::string problem_of(Builder&& builder) {
  auto status = verify(std::move(builder).finish());
  return status ? "" : status.error().message;
}

TEST(Formula, PrintsAsItIsRead) {
  Builder f("matmul");
  Dim m = Dim::symbol("m");
  Buffer a = f.input(0, "a", DType::F32, {m, 4}), b = f.input(1, "b", DType::F32, {4, 8});
  Buffer y = f.output(0, "y", DType::F32, {m, 8});
  Axis i = f.axis(m, "i"), j = f.axis(8, "j"), k = f.axis(4, "k");
  f.write_reduced(y, {i, j}, Reducer::Sum, {k}, a(i, k) * b(k, j), [](Expr sum) { return sum * 0.5; });
  Formula formula = std::move(f).finish();
  EXPECT_TRUE(verify(formula));
  EXPECT_EQ(to_string(formula),
            "formula matmul(a: f32[m, 4], b: f32[4, 8]) -> (y: f32[m, 8])\n"
            "  y[i, j] = sum(k < 4) a[i, k] * b[k, j]  then acc * 0.5  for i < m, j < 8\n");
}

TEST(Formula, PrintsScans) {
  Builder f("cumsum");
  Buffer x = f.input(0, "x", DType::F32, {5});
  Buffer y = f.output(0, "y", DType::F32, {5});
  Buffer s = f.carry("s", DType::F32, {}, Expr::floating(DType::F32, 0));
  Axis t = f.begin_scan(5, {s});
  f.next(s, {}, s() + x(t));
  f.write_at(y, {}, {t}, f.next_of(s)());
  f.end_scan();
  Formula formula = std::move(f).finish();
  EXPECT_TRUE(verify(formula));
  EXPECT_EQ(to_string(formula),
            "formula cumsum(x: f32[5]) -> (y: f32[5])\n"
            "  temporary s: f32[], s': f32[]\n"
            "  s[] = 0.0\n"
            "  scan t < 5 {\n"
            "    s'[] = s[] + x[t]\n"
            "    y[t] = s'[]\n"
            "    carry s <- s'\n"
            "  }\n");
}

TEST(Formula, RefusesAnOutputThatIsNeverWritten) {
  Builder f("f");
  f.output(0, "y", DType::F32, {2});
  EXPECT_EQ(problem_of(std::move(f)), "formula f: output 'y' is never written");
}

TEST(Formula, RefusesAVariableOutsideItsLoop) {
  Builder f("f");
  Buffer x = f.input(0, "x", DType::F32, {2}), y = f.output(0, "y", DType::F32, {2});
  Axis i = f.axis(2, "i"), j = f.axis(2, "j");
  f.write(y, {i}, x(j));
  EXPECT_EQ(problem_of(std::move(f)), "formula f: variable 'j' is used outside its loop");
}

TEST(Formula, RefusesAWriteToAnInput) {
  Builder f("f");
  Buffer x = f.input(0, "x", DType::F32, {2});
  Axis i = f.axis(2, "i");
  f.write(x, {i}, x(i));
  EXPECT_EQ(problem_of(std::move(f)), "formula f: stage writes the input 'x'");
}

TEST(Formula, RefusesALoadOfTheWrongRank) {
  Builder f("f");
  Buffer x = f.input(0, "x", DType::F32, {2, 2}), y = f.output(0, "y", DType::F32, {2});
  Axis i = f.axis(2, "i");
  f.write(y, {i}, x(i));
  EXPECT_EQ(problem_of(std::move(f)), "operand 'x' must have rank 1, not 2");
  Builder g("g");
  Buffer z = g.output(0, "z", DType::F32, {2});
  Axis j = g.axis(2, "j"), k = g.axis(2, "k");
  Buffer t = g.map("t", {j, k}, Expr::floating(DType::F32, 0));
  g.write(z, {j}, t(j));
  EXPECT_EQ(problem_of(std::move(g)), "formula g: load of 't' has the wrong rank");
}

TEST(Formula, RefusesAnAxisUsedTwice) {
  Builder f("f");
  Buffer x = f.input(0, "x", DType::F32, {2}), y = f.output(0, "y", DType::F32, {2});
  Axis i = f.axis(2, "i");
  f.write_reduced(y, {i}, Reducer::Sum, {i}, x(i));
  EXPECT_EQ(problem_of(std::move(f)), "formula f: axis 'i' is used twice");
}

TEST(Formula, RefusesAStateWithoutANextValue) {
  Builder f("f");
  Buffer y = f.output(0, "y", DType::F32, {2});
  Buffer s = f.carry("s", DType::F32, {}, Expr::floating(DType::F32, 0));
  Axis t = f.begin_scan(2, {s});
  f.write_at(y, {}, {t}, s());
  f.end_scan();
  EXPECT_EQ(problem_of(std::move(f)), "formula f: state 's' gets no next value");
}

TEST(Expr, OperandsOfOneOperationHaveOneDType) {
  Expr f = Expr::floating(DType::F32, 1), i = Expr::index(1);
  EXPECT_THROW(f + i, InternalError);
  EXPECT_THROW(select(f, f, f), InternalError);
  EXPECT_THROW(bitcast(DType::I64, f), InternalError);
  EXPECT_EQ(cast(DType::F32, f).address(), f.address());
}

TEST(Expr, IndexArithmeticIsSimplified) {
  Expr i = Expr::variable(VarId(0));
  EXPECT_EQ((i + 0).address(), i.address());
  EXPECT_EQ((i * 1).address(), i.address());
  EXPECT_TRUE((i * 0).is_integer_constant(0));
  EXPECT_TRUE((Expr::index(2) * Expr::index(3) + Expr::index(1)).is_integer_constant(7));
  EXPECT_EQ(select(Expr::boolean(true), i, Expr::index(0)).address(), i.address());
}

}  // namespace
}  // namespace xyntra::te
