// The math functions with a more precise counterpart each, and the measure of the distance between them.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "te/expr.h"
#include "te/math/math.h"

namespace xyntra::te::testing {

// The type whose library functions are the yardstick: double for f32, long double for f64.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
struct MathFunction {
  const char* name;
  Expr (*formula)(const Expr& x);
  Wide<T> (*exact)(Wide<T> x);
  double ulps;  // promised
  bool of_one = false;  // ulps of the numbers from 1/2 to 1, however small the result is
};

template <class W>
W exact_softplus(W x) {
  return std::fmax(x, W{0}) + std::log1p(std::exp(-std::fabs(x)));
}

#define XYNTRA_FUNCTION(function, op, ulps)                           \
  MathFunction<T> {                                                   \
    #function, [](const Expr& x) { return expand(ExprOp::op, {x}); }, \
        [](Wide<T> x) -> Wide<T> { return std::function(x); }, ulps   \
  }

template <class T>
std::vector<MathFunction<T>> math_functions() {
  using W = Wide<T>;
  return {
      XYNTRA_FUNCTION(exp, Exp, 1),
      XYNTRA_FUNCTION(exp2, Exp2, 1),
      XYNTRA_FUNCTION(expm1, Expm1, 1),
      XYNTRA_FUNCTION(log, Log, 1),
      XYNTRA_FUNCTION(log1p, Log1p, 1),
      XYNTRA_FUNCTION(erf, Erf, (sizeof(T) == 4 ? 1 : 1.05)),
      {"normal_cdf", [](const Expr& x) { return expand(ExprOp::NormalCdf, {x}); },
       [](W x) { return std::erfc(-x / std::sqrt(W{2})) / 2; }, (sizeof(T) == 4 ? 1.75 : 1.25), true},
      XYNTRA_FUNCTION(tanh, Tanh, 1),
      {"sigmoid", [](const Expr& x) { return expand(ExprOp::Sigmoid, {x}); },
       [](W x) { return 1 / (1 + std::exp(-x)); }, (sizeof(T) == 4 ? 2.5 : 1)},
      {"softplus", [](const Expr& x) { return expand_math(softplus(x)); },
       [](W x) { return exact_softplus(x); }, 2},
      XYNTRA_FUNCTION(sin, Sin, 1),
      XYNTRA_FUNCTION(cos, Cos, 1),
      XYNTRA_FUNCTION(tan, Tan, 1),
      XYNTRA_FUNCTION(asin, Asin, 1),
      XYNTRA_FUNCTION(acos, Acos, 1),
      XYNTRA_FUNCTION(atan, Atan, 1),
      XYNTRA_FUNCTION(sinh, Sinh, 1),
      XYNTRA_FUNCTION(cosh, Cosh, 1),
      XYNTRA_FUNCTION(asinh, Asinh, 1),
      XYNTRA_FUNCTION(acosh, Acosh, 1),
      XYNTRA_FUNCTION(atanh, Atanh, 1),
      {"rsqrt", [](const Expr& x) { return 1 / sqrt(x); }, [](W x) { return 1 / std::sqrt(x); }, 2},
  };
}
#undef XYNTRA_FUNCTION

// The distance in units of the last place of the exact value, which counts as it would be rounded: a result
// beyond the largest float is right when it is infinite. Wrong NaN, infinity or sign of zero is infinitely far.
template <class T>
double ulps_between(T value, Wide<T> exact) {
  using W = Wide<T>;
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (exact != exact || value != value) return (exact != exact) == (value != value) ? 0 : kWrong;
  if (value == 0 && exact == 0) return std::signbit(value) == std::signbit(exact) ? 0 : kWrong;
  T rounded = static_cast<T>(exact);
  if (std::isinf(value) || std::isinf(rounded)) {
    if (value == rounded) return 0;
    // Next to the edge of overflow: infinity counts as the power of two it stands for.
    W edge = std::ldexp(W{1}, std::numeric_limits<T>::max_exponent);
    if (std::isinf(exact) || std::signbit(value) != std::signbit(rounded)) return kWrong;
    W seen = std::isinf(value) ? edge : std::fabs(static_cast<W>(value));
    W unit = std::ldexp(W{1}, std::numeric_limits<T>::max_exponent - std::numeric_limits<T>::digits);
    return static_cast<double>(std::fabs(std::fmin(std::fabs(exact), edge) - seen) / unit);
  }
  int exponent = exact == 0 ? std::numeric_limits<T>::min_exponent : std::ilogb(exact) + 1;
  if (exponent < std::numeric_limits<T>::min_exponent) exponent = std::numeric_limits<T>::min_exponent;
  W unit = std::ldexp(W{1}, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::fabs(static_cast<W>(value) - exact) / unit);
}

template <class T>
double distance(const MathFunction<T>& function, T value, Wide<T> exact) {
  if (!function.of_one || value != value || exact != exact) return ulps_between<T>(value, exact);
  return static_cast<double>(
      std::ldexp(std::fabs(static_cast<Wide<T>>(value) - exact), std::numeric_limits<T>::digits));
}

}  // namespace xyntra::te::testing
