#include "te/math/math_parts.h"

#include <limits>

#include "support/result.h"

namespace xyntra::te::math {
namespace {

constexpr Format kSingle{DType::F32, DType::I32, DType::U32, 32, 23, 127};
constexpr Format kDouble{DType::F64, DType::I64, DType::U64, 64, 52, 1023};

}  // namespace

double Format::largest() const {
  return is_single() ? static_cast<double>(std::numeric_limits<float>::max())
                     : std::numeric_limits<double>::max();
}

double Format::smallest_normal() const { return is_single() ? 0x1p-126 : 0x1p-1022; }

// The format of a float, or of the integers of its width.
const Format& format_of(const Expr& x) {
  for (const Format* format : {&kSingle, &kDouble}) {
    if (x.dtype() == format->real || x.dtype() == format->integer || x.dtype() == format->word)
      return *format;
  }
  internal_error("te: math functions are defined on f32 and f64");
}

Expr number(const Expr& x, double value) { return Expr::number(x.dtype(), value); }
Expr number(const Expr& x, Constant value) {
  return number(x, format_of(x).is_single() ? value.f32 : value.f64);
}

Pair number(const Expr& x, const PairConstant& value) {
  const auto& parts = format_of(x).is_single() ? value.f32 : value.f64;
  return {number(x, parts[0]), number(x, parts[1])};
}

Expr infinity(const Expr& x) { return number(x, std::numeric_limits<double>::infinity()); }
Expr not_a_number(const Expr& x) { return number(x, std::numeric_limits<double>::quiet_NaN()); }

Expr polynomial(const Expr& x, const Polynomial& coefficients) {
  std::span<const double> c = format_of(x).is_single() ? coefficients.f32 : coefficients.f64;
  Expr result = number(x, c.back());
  for (std::size_t i = c.size() - 1; i-- > 0;) result = fma(result, x, number(x, c[i]));
  return result;
}

Expr as_integer(const Expr& x) { return bitcast(format_of(x).integer, x); }
Expr as_word(const Expr& x) { return bitcast(format_of(x).word, x); }
Expr as_real(const Expr& bits) { return bitcast(format_of(bits).real, bits); }

Expr sign_of(const Expr& x) {
  const Format& format = format_of(x);
  return as_word(x) &
         Expr::integer(format.word, static_cast<std::int64_t>(std::uint64_t{1} << (format.width - 1)));
}

Expr flip_sign(const Expr& x, const Expr& sign) { return as_real(as_word(x) ^ sign); }

Expr power_of_two(const Expr& exponent) {
  const Format& format = format_of(exponent);
  return as_real((exponent + format.bias) << format.fraction_bits);
}

// In two steps, because 2^exponent alone may be out of range; the first step is exact.
Expr scale(const Expr& x, const Expr& exponent) {
  Expr half = exponent >> 1;
  return x * power_of_two(half) * power_of_two(exponent - half);
}

Expr scaled(const Expr& x, const Expr& exponent) { return x << exponent; }

Expr beyond_whole(const Expr& x) { return x >> 0; }

Expr without_scaling(const Expr& shift) {
  const Expr &x = shift->operands[0], &exponent = shift->operands[1];
  constexpr Constant kNothing{-160, -1100};  // below, x * 2^exponent is 0
  Expr nothing = exponent < number(x, kNothing);
  // Asked the other way round, so that a NaN is 0 here and need not be looked for again.
  Expr within = select(exponent >= number(x, kNothing), exponent, number(x, 0));
  // What is masked out of a softmax comes here: it must not go through a product that underflows, which CPUs
  // are slow at.
  return select(nothing, number(x, 0), scale(x, cast(format_of(x).integer, within)));
}

Pair quick_sum(const Expr& a, const Expr& b) {
  Expr high = a + b;
  return {high, b - (high - a)};
}

Pair sum(const Expr& a, const Expr& b) {
  Expr high = a + b;
  Expr b_part = high - a;
  return {high, (a - (high - b_part)) + (b - b_part)};
}

Pair product(const Expr& a, const Expr& b) {
  Expr high = a * b;
  return {high, fma(a, b, -high)};
}

Pair product(const Pair& a, const Pair& b) {
  Pair result = product(a.high, b.high);
  return quick_sum(result.high, result.low + fma(a.high, b.low, a.low * b.high));
}

Pair quotient(const Pair& a, const Pair& b) {
  Expr inverse = 1 / b.high;
  Expr high = a.high * inverse;
  Expr rest = fma(-high, b.high, a.high) + fma(-high, b.low, a.low);
  return {high, rest * inverse};
}

Pair square_root(const Pair& a) {
  Expr high = sqrt(a.high);
  Expr rest = fma(-high, high, a.high) + a.low;
  return {high, rest / max(high + high, number(high, format_of(high).smallest_normal()))};
}

Pair select(const Expr& condition, const Pair& when_true, const Pair& when_false) {
  return {te::select(condition, when_true.high, when_false.high),
          te::select(condition, when_true.low, when_false.low)};
}

Pair normalized(const Pair& a) { return quick_sum(a.high, a.low); }
Expr value_of(const Pair& a) { return a.high + a.low; }

}  // namespace xyntra::te::math
