#include <gtest/gtest.h>

#include "op_text.h"

namespace xyntra {
namespace {

const Dim kN = Dim::symbol("n");

struct Case {
  const char* op;
  std::vector<Operand> operands;
  std::string expected;
  Attributes attributes = {};
};

TEST(SymbolicElements, ShapeArithmeticIsKnownBeforeRunning) {
  Operand truth{DType::Bool, {2}, std::vector<Dim>{1, 0}};
  const Case kCases[] = {
      {"Add", {integers({kN, 3}), integers({1})}, "i64[2] = [n + 1, 4]"},
      {"Sub", {integers({kN}), integers({kN})}, "i64[1] = [0]"},
      {"Mul", {integers({kN, 2}), integers({kN, -1})}, "i64[2] = [n*n, -2]"},
      {"Div", {integers({kN * 8, -7}), integers({4, 2})}, "i64[2] = [2*n, -3]"},
      {"Div", {integers({kN - 8}), integers({4})}, "i64[1]"},
      {"Mod", {integers({-7}), integers({4})}, "i64[1] = [1]"},
      {"Mod", {integers({-7}), integers({4})}, "i64[1] = [-3]", {{"fmod", std::int64_t{1}}}},
      {"Neg", {integers({kN})}, "i64[1] = [-n]"},
      {"Max", {integers({kN, 5}), integers({0, 7}), integers({-1})}, "i64[2] = [n, 7]"},
      {"Equal", {integers({kN, 3}), integers({-1, 3})}, "bool[2] = [0, 1]"},
      {"Equal", {integers({kN, 3}), integers({2, 3})}, "bool[2]"},
      {"Less", {integers({3, 4}), integers({4})}, "bool[2] = [1, 0]"},
      {"GreaterOrEqual", {integers({kN}), integers({0})}, "bool[1] = [1]"},
      {"Not", {truth}, "bool[2] = [0, 1]"},
      {"Where", {truth, integers({kN, kN}), integers({5})}, "i64[2] = [n, 5]"},
      {"Cast", {integers({kN, 300})}, "i32[2] = [n, 300]", {{"to", std::int64_t{6}}}},
      {"Cast", {integers({300})}, "i8[1]", {{"to", std::int64_t{3}}}},
      {"ReduceProd", {integers({kN, 4, 2})}, "i64[1] = [8*n]"},
      {"Add", {integers({INT64_MAX / 2}), integers({INT64_MAX / 2})}, "i64[1]"},
  };
  for (const Case& one : kCases) {
    EXPECT_EQ(OneNode(one.op, one.operands, one.attributes).inferred(), one.expected) << one.op;
  }
}

TEST(Elementwise, RefusalsNameOperandAndReason) {
  const Case kCases[] = {
      {"Add", {{DType::F32, {2}}, {DType::F16, {2}}}, "operand 1 (b) is f16 but operand 0 is f32"},
      {"Add", {{DType::F32, {2}}, {DType::F32, {3}}}, "sizes 2 and 3 cannot be broadcast together"},
      {"PRelu",
       {{DType::F32, {2}}, {DType::F32, {3}}},
       "operand 1 (slope) of size 3 does not broadcast to 2"},
      {"Clip", {{DType::F32, {2}}, {DType::F32, {3}}}, "operand 1 must be a single number, not [3]"},
      {"BitCast", {{DType::F32, {2}}}, "f32 and i64 differ in width", {{"to", std::int64_t{7}}}},
      {"Cast",
       {{DType::F32, {2}}},
       "attribute 'to' = 14 names no dtype that is supported",
       {{"to", std::int64_t{14}}}},
  };
  for (const Case& one : kCases) {
    EXPECT_EQ(OneNode(one.op, one.operands, one.attributes).inferred(), one.expected) << one.op;
  }
}

TEST(Elementwise, FormulasReadAsTheOpsAreWritten) {
  Operand x{DType::F32, {kN}}, half{DType::F16, {kN, 1}};
  const Case kCases[] = {
      {"Add", {half, {DType::F16, {3}}}, "c[i0, i1] = f32(a[i0, 0]) + f32(b[i1])  for i0 < n, i1 < 3"},
      {"Mod", {x, x}, "c[i0] = mod(a[i0], b[i0])  for i0 < n"},
      {"BitShift",
       {{DType::I32, {kN}}, {DType::I32, {kN}}},
       "z[i0] = x[i0] >> y[i0]  for i0 < n",
       {{"direction", std::string("RIGHT")}}},
      {"Gelu", {x}, "y[i0] = x[i0] * normal_cdf(x[i0])  for i0 < n"},
      {"Softplus", {x}, "y[i0] = max(x[i0], 0.0) + log1p(exp(-abs(x[i0])))  for i0 < n"},
      {"HardSwish", {x}, "y[i0] = x[i0] * max(min(x[i0] / 6.0 + 0.5, 1.0), 0.0)  for i0 < n"},
      {"Clip", {x, absent(), {DType::F32, {}}}, "y[i0] = min(x[i0], max[])  for i0 < n"},
      {"Mean", {x, x}, "y[i0] = (x0[i0] + x1[i0]) / 2.0  for i0 < n"},
      {"IsInf",
       {x},
       "y[i0] = isinf(x[i0]) & x[i0] > 0.0  for i0 < n",
       {{"detect_negative", std::int64_t{0}}}},
  };
  for (const Case& one : kCases) {
    std::string text = OneNode(one.op, one.operands, one.attributes).formula();
    EXPECT_NE(text.find("\n  " + one.expected + "\n"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace xyntra
