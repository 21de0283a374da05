// The definitions of math functions: special values exactly, everything else within the promised ulps.
#include "te/math/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>

#include "math/block_evaluator.h"
#include "math/math_functions.h"

namespace xyntra::te {
namespace {

using testing::argument;
using testing::BlockEvaluator;
using testing::math_functions;
using testing::MathFunction;
using testing::ulps_between;
using testing::Wide;

template <class T>
constexpr DType kDType = std::is_same_v<T, float> ? DType::F32 : DType::F64;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
const MathFunction<T>& function_named(const std::string& name) {
  static const std::vector<MathFunction<T>> functions = math_functions<T>();
  for (const MathFunction<T>& function : functions) {
    if (function.name == name) return function;
  }
  throw std::logic_error("no function " + name);
}

template <class T>
T evaluate(const Expr& formula, T x, T y = 0) {
  BlockEvaluator::Lanes<T> first, second;
  first.fill(x);
  second.fill(y);
  return BlockEvaluator(formula).run<T>({&first, &second})[0];
}

template <class T>
Expr pow_formula() {
  return expand(ExprOp::Pow, {argument(0, kDType<T>), argument(1, kDType<T>)});
}

// Equal as numbers with the sign of zero, or both NaN.
template <class T>
bool same(T a, T b) {
  return (a != a && b != b) || (a == b && std::signbit(a) == std::signbit(b));
}

template <class T>
class MathTest : public ::testing::Test {};
using Formats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MathTest, Formats);

TYPED_TEST(MathTest, SpecialValues) {
  using T = TypeParam;
  constexpr T inf = std::numeric_limits<T>::infinity();
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T tiny = std::numeric_limits<T>::denorm_min();
  constexpr T most = std::numeric_limits<T>::max();
  const T half_pi = static_cast<T>(1.57079632679489661923L);
  const T pi = static_cast<T>(3.14159265358979323846L);
  struct Case {
    const char* function;
    T x;
    T expected;
  };
  const Case cases[] = {
      {"exp", T{0}, T{1}},       {"exp", -T{0}, T{1}},       {"exp", inf, inf},
      {"exp", -inf, T{0}},       {"exp", most, inf},         {"exp", -most, T{0}},
      {"exp", tiny, T{1}},       {"expm1", T{0}, T{0}},      {"expm1", -T{0}, -T{0}},
      {"expm1", inf, inf},       {"expm1", -inf, T{-1}},     {"expm1", tiny, tiny},
      {"expm1", -tiny, -tiny},   {"expm1", most, inf},       {"expm1", -most, T{-1}},
      {"log", T{0}, -inf},       {"log", -T{0}, -inf},       {"log", T{1}, T{0}},
      {"log", inf, inf},         {"log", T{-1}, nan},        {"log", -inf, nan},
      {"log", -tiny, nan},       {"log1p", T{0}, T{0}},      {"log1p", -T{0}, -T{0}},
      {"log1p", T{-1}, -inf},    {"log1p", inf, inf},        {"log1p", T{-2}, nan},
      {"log1p", -inf, nan},      {"log1p", tiny, tiny},      {"log1p", -tiny, -tiny},
      {"erf", T{0}, T{0}},       {"erf", -T{0}, -T{0}},      {"erf", inf, T{1}},
      {"erf", -inf, T{-1}},      {"erf", most, T{1}},        {"erf", tiny, tiny},
      {"tanh", T{0}, T{0}},      {"tanh", -T{0}, -T{0}},     {"tanh", inf, T{1}},
      {"tanh", -inf, T{-1}},     {"tanh", tiny, tiny},       {"tanh", -most, T{-1}},
      {"sigmoid", T{0}, T{0.5}}, {"sigmoid", -T{0}, T{0.5}}, {"sigmoid", inf, T{1}},
      {"sigmoid", -inf, T{0}},   {"sigmoid", most, T{1}},    {"sigmoid", -most, T{0}},
      {"softplus", inf, inf},    {"softplus", -inf, T{0}},   {"softplus", most, most},
      {"softplus", -most, T{0}}, {"sin", T{0}, T{0}},        {"sin", -T{0}, -T{0}},
      {"sin", inf, nan},         {"sin", -inf, nan},         {"sin", tiny, tiny},
      {"sin", -tiny, -tiny},     {"cos", T{0}, T{1}},        {"cos", -T{0}, T{1}},
      {"cos", inf, nan},         {"cos", -inf, nan},         {"tan", T{0}, T{0}},
      {"tan", -T{0}, -T{0}},     {"tan", inf, nan},          {"tan", tiny, tiny},
      {"asin", T{0}, T{0}},      {"asin", -T{0}, -T{0}},     {"asin", T{1}, half_pi},
      {"asin", T{-1}, -half_pi}, {"asin", T{2}, nan},        {"asin", -inf, nan},
      {"asin", tiny, tiny},      {"acos", T{1}, T{0}},       {"acos", T{-1}, pi},
      {"acos", T{0}, half_pi},   {"acos", T{2}, nan},        {"acos", -inf, nan},
      {"acos", -T{0}, half_pi},  {"atan", T{0}, T{0}},       {"atan", -T{0}, -T{0}},
      {"atan", inf, half_pi},    {"atan", -inf, -half_pi},   {"atan", most, half_pi},
      {"atan", tiny, tiny},      {"sinh", T{0}, T{0}},       {"sinh", -T{0}, -T{0}},
      {"sinh", inf, inf},        {"sinh", -inf, -inf},       {"sinh", tiny, tiny},
      {"sinh", -most, -inf},     {"cosh", T{0}, T{1}},       {"cosh", -T{0}, T{1}},
      {"cosh", inf, inf},        {"cosh", -inf, inf},        {"asinh", T{0}, T{0}},
      {"asinh", -T{0}, -T{0}},   {"asinh", inf, inf},        {"asinh", -inf, -inf},
      {"asinh", tiny, tiny},     {"acosh", T{1}, T{0}},      {"acosh", T{0.5}, nan},
      {"acosh", inf, inf},       {"acosh", -inf, nan},       {"atanh", T{0}, T{0}},
      {"atanh", -T{0}, -T{0}},   {"atanh", T{1}, inf},       {"atanh", T{-1}, -inf},
      {"atanh", T{2}, nan},      {"atanh", -inf, nan},       {"atanh", tiny, tiny},
  };
  for (const Case& test : cases) {
    T value = evaluate<T>(function_named<T>(test.function).formula(argument(0, kDType<T>)), test.x);
    EXPECT_TRUE(same(value, test.expected)) << test.function << "(" << test.x << ") = " << value;
  }
  for (const MathFunction<T>& function : math_functions<T>()) {
    T value = evaluate<T>(function.formula(argument(0, kDType<T>)), nan);
    EXPECT_TRUE(value != value) << function.name << "(nan) = " << value;
  }
}

TYPED_TEST(MathTest, SpecialValuesOfPowersOfTwoAndTheNormalDistribution) {
  using T = TypeParam;
  constexpr T inf = std::numeric_limits<T>::infinity();
  constexpr T most = std::numeric_limits<T>::max();
  constexpr T tiny = std::numeric_limits<T>::denorm_min();
  auto expect = [](const char* name, T x, T expected) {
    T value = evaluate<T>(function_named<T>(name).formula(argument(0, kDType<T>)), x);
    EXPECT_TRUE(same(value, expected)) << name << "(" << x << ") = " << value;
  };
  for (T zero : {T{0}, -T{0}, tiny}) {
    expect("exp2", zero, T{1});
    expect("exp2", -zero, T{1});
    expect("normal_cdf", zero, T{0.5});
  }
  for (T large : {T{9999}, most, inf}) {
    expect("exp2", large, inf);
    expect("exp2", -large, T{0});
    expect("normal_cdf", large, T{1});
    expect("normal_cdf", -large, T{0});
  }
  for (int k = -20; k <= 20; ++k) expect("exp2", static_cast<T>(k), std::ldexp(T{1}, k));
  expect("exp2", static_cast<T>(std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits), tiny);
}

TYPED_TEST(MathTest, SpecialValuesOfPow) {
  using T = TypeParam;
  constexpr T inf = std::numeric_limits<T>::infinity();
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T most = std::numeric_limits<T>::max();
  constexpr T tiny = std::numeric_limits<T>::denorm_min();
  const T odd_edge = std::ldexp(T{1}, std::numeric_limits<T>::digits) - 1;  // the largest odd number
  const T values[] = {T{0},  -T{0}, T{0.5}, T{-0.5}, T{1},     T{-1},     T{1.5},       T{2},
                      T{-2}, T{3},  T{-3},  T{2.5},  T{-2.5},  tiny,      -tiny,        most,
                      -most, inf,   -inf,   nan,     odd_edge, -odd_edge, odd_edge + 1, odd_edge / 2};
  // C99's pow is exact on all of these but the inexact few, where an ulp is allowed.
  Expr formula = pow_formula<T>();
  for (T x : values) {
    for (T y : values) {
      T value = evaluate<T>(formula, x, y);
      Wide<T> expected = std::pow(static_cast<Wide<T>>(x), static_cast<Wide<T>>(y));
      EXPECT_LE(ulps_between<T>(value, expected), 1) << "pow(" << x << ", " << y << ") = " << value;
    }
  }
}

TYPED_TEST(MathTest, PowIsExactWhereTheResultIs) {
  using T = TypeParam;
  Expr formula = pow_formula<T>();
  for (int base = -20; base <= 20; ++base) {
    double expected = 1;
    for (int exponent = 0; exponent <= 5; ++exponent, expected *= base) {
      EXPECT_EQ(evaluate<T>(formula, static_cast<T>(base), static_cast<T>(exponent)),
                static_cast<T>(expected))
          << base << "^" << exponent;
    }
    T square = static_cast<T>(base * base);
    EXPECT_EQ(evaluate<T>(formula, square, T{0.5}), static_cast<T>(std::abs(base)));
  }
}

template <class T>
T any_value(std::mt19937_64& random) {
  std::uint64_t bits = random();
  if (bits & 1) return std::bit_cast<T>(static_cast<Bits<T>>(random()));
  double size = std::ldexp(1.0, static_cast<int>(bits >> 1 & 31) - 22);
  return static_cast<T>(size * std::uniform_real_distribution<double>(-1, 1)(random));
}

TYPED_TEST(MathTest, SamplesAreWithinThePromisedUlps) {
  using T = TypeParam;
  for (const MathFunction<T>& function : math_functions<T>()) {
    BlockEvaluator evaluator(function.formula(argument(0, kDType<T>)));
    std::mt19937_64 random(3);
    BlockEvaluator::Lanes<T> arguments;
    for (int block = 0; block < 20; ++block) {
      for (T& x : arguments) x = any_value<T>(random);
      const auto& results = evaluator.run<T>({&arguments});
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        ASSERT_LE(testing::distance<T>(function, results[i], function.exact(arguments[i])), function.ulps)
            << function.name << "(" << arguments[i] << ") = " << results[i];
      }
    }
  }
}

TYPED_TEST(MathTest, SamplesOfPowAreWithinAnUlp) {
  using T = TypeParam;
  BlockEvaluator evaluator(pow_formula<T>());
  std::mt19937_64 random(3);
  BlockEvaluator::Lanes<T> bases, exponents;
  for (int block = 0; block < 40; ++block) {
    for (std::size_t i = 0; i < bases.size(); ++i) {
      bases[i] = any_value<T>(random);
      exponents[i] = i % 3 == 0 ? std::round(any_value<T>(random)) : any_value<T>(random);
      if (i % 2 == 0) {  // results of every size
        double range = std::numeric_limits<T>::max_exponent * 1.2;
        double log2 = std::log2(std::fabs(static_cast<double>(bases[i])));
        exponents[i] = static_cast<T>(std::uniform_real_distribution<double>(-range, range)(random) / log2);
      }
    }
    const auto& results = evaluator.run<T>({&bases, &exponents});
    for (std::size_t i = 0; i < bases.size(); ++i) {
      Wide<T> exact = std::pow(static_cast<Wide<T>>(bases[i]), static_cast<Wide<T>>(exponents[i]));
      ASSERT_LE(ulps_between<T>(results[i], exact), 1)
          << "pow(" << bases[i] << ", " << exponents[i] << ") = " << results[i];
    }
  }
}

// The doubles and floats that come closest to a multiple of pi/2 leave the fewest digits after reduction.
TYPED_TEST(MathTest, ReductionIsExactInItsHardestCases) {
  using T = TypeParam;
  T hardest = sizeof(T) == 4 ? static_cast<T>(std::ldexp(16367173.0, 72))
                             : static_cast<T>(std::ldexp(6381956970095103.0, 797));
  for (const char* name : {"sin", "cos", "tan"}) {
    const MathFunction<T> function = function_named<T>(name);
    T value = evaluate<T>(function.formula(argument(0, kDType<T>)), hardest);
    EXPECT_LE(ulps_between<T>(value, function.exact(hardest)), 1) << name << " = " << value;
  }
  if (sizeof(T) == 8) {
    T cosine = evaluate<T>(function_named<T>("cos").formula(argument(0, kDType<T>)), hardest);
    EXPECT_EQ(cosine, static_cast<T>(-4.68716592425462761112e-19));
  }
}

void collect(const Expr& expr, std::set<const ExprNode*>& seen) {
  if (!seen.insert(expr.address()).second) return;
  for (const Expr& operand : expr->operands) collect(operand, seen);
}

TYPED_TEST(MathTest, DefinitionsStayInTheirFormat) {
  using T = TypeParam;
  const std::set<DType> allowed = sizeof(T) == 4
                                      ? std::set<DType>{DType::F32, DType::I32, DType::U32, DType::Bool}
                                      : std::set<DType>{DType::F64, DType::I64, DType::U64, DType::Bool};
  for (const MathFunction<T>& function : math_functions<T>()) {
    Expr formula = function.formula(argument(0, kDType<T>));
    std::set<const ExprNode*> nodes;
    collect(formula, nodes);
    for (const ExprNode* node : nodes) {
      EXPECT_TRUE(allowed.contains(node->dtype)) << function.name << " uses " << name_of(node->dtype);
      EXPECT_NE(kind_of(node->op), ExprKind::Math) << function.name << " uses " << spelling_of(node->op);
    }
  }
}

TEST(ExpandMath, ReplacesEveryFunctionAtAnyDepth) {
  Expr x = argument(0, DType::F32);
  Expr expanded = expand_math(tanh(exp(x)) * x + Expr::load_or(log(x), BufferId(1), {}));
  std::set<const ExprNode*> nodes;
  collect(expanded, nodes);
  for (const ExprNode* node : nodes) EXPECT_NE(kind_of(node->op), ExprKind::Math) << spelling_of(node->op);
}

TEST(ExpandMath, LeavesOtherExpressionsAlone) {
  Expr x = argument(0, DType::F32);
  Expr unchanged = x * 2 + sqrt(x);
  EXPECT_EQ(expand_math(unchanged).address(), unchanged.address());
}

TEST(ExpandMath, ComputesNarrowFloatsInSinglePrecision) {
  Expr x = argument(0, DType::F16);
  Expr expanded = expand(ExprOp::Exp, {x});
  EXPECT_EQ(expanded.dtype(), DType::F16);
  EXPECT_EQ(expanded->op, ExprOp::Cast);
  EXPECT_EQ(expanded->operands[0].dtype(), DType::F32);
}

}  // namespace
}  // namespace xyntra::te
