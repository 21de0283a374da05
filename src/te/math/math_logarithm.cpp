// log, log1p, asinh, acosh, atanh: all from log(1 + f) = 2s + s R(s^2) with s = f / (2 + f), for
// 1 + f in [sqrt(1/2), sqrt(2)).
#include "te/math/math_parts.h"

namespace xyntra::te::math {
namespace {

constexpr double kLogSingle[] = {0x1.555554p-1, 0x1.999c26p-2, 0x1.23d3ep-2, 0x1.f13aeep-3};
constexpr double kLogDouble[] = {0x1.5555555555593p-1, 0x1.999999997f9f5p-2, 0x1.249249422a83cp-2,
                                 0x1.c71c51d78dddap-3, 0x1.746649c03d4f4p-3, 0x1.39a09381d0f94p-3,
                                 0x1.2f11979f89d4dp-3};
constexpr Polynomial kLog{kLogSingle, kLogDouble};

constexpr double kAsinhSingle[] = {-0x1.555554p-3, 0x1.33323ap-4,  -0x1.6d7ebcp-5,
                                   0x1.ec11eap-6,  -0x1.487dfcp-6, 0x1.2f51eep-7};
constexpr double kAsinhDouble[] = {-0x1.5555555555554p-3, 0x1.3333333332fe6p-4,  -0x1.6db6db6d8916fp-5,
                                   0x1.f1c71c5dc6409p-6,  -0x1.6e8ba053223cp-6,  0x1.1c4e8dd171807p-6,
                                   -0x1.c9935eb8b8f3bp-7, 0x1.7a48745d5a013p-7,  -0x1.3e187a778afdfp-7,
                                   0x1.09d5c99e3a61bp-7,  -0x1.9d13c159f3adbp-8, 0x1.fe5024ed1d239p-9,
                                   -0x1.60731feb94349p-10};
constexpr Polynomial kAsinh{kAsinhSingle, kAsinhDouble};

// ln(2) with a high part so short that its product with any exponent is exact.
constexpr PairConstant kShortLn2{{0x1.62e4p-1, 0x1.7f7d1cp-20}, {0x1.62e42fefa4p-1, -0x1.8432a1b0e2634p-43}};

// exponent * ln(2) + log(1 + f) + correction. f itself is added last: everything before it is small beside it,
// or beside exponent * ln(2).
Expr log_of_parts(const Expr& exponent, const Expr& f, const Expr& correction) {
  Pair ln2 = number(f, kShortLn2);
  Expr s = f / (f + 2);
  Expr square = s * s;
  Expr half_square = f * f * 0.5;
  Expr tail = fma(s, fma(square, polynomial(square, kLog), half_square), fma(exponent, ln2.low, correction));
  Pair head = quick_sum(exponent * ln2.high, f);
  return head.high + (head.low + (tail - half_square));
}

// log(x + sqrt(..)) for x so large that it is log(2x): the pair is x itself and a doubling is left to `extra`.
constexpr Constant kSquareIsAll{0x1p14, 0x1p28};

Expr in_domain(const Expr& condition, const Expr& value, const Expr& x) {
  return select(condition, value, not_a_number(x));
}

}  // namespace

// Subtracting sqrt(1/2) as an integer moves the exponent's carry to where the mantissa crosses it.
Split split(const Expr& x) {
  const Format& format = format_of(x);
  Expr subnormal = x < format.smallest_normal();
  double lift = format.fraction_bits + 2;
  Expr lifted = select(subnormal, x * (format.is_single() ? 0x1p25 : 0x1p54), x);
  Expr bits = as_integer(lifted);
  Expr exponent =
      (bits - Expr::integer(format.integer, format.is_single() ? 0x3f3504f3 : 0x3fe6a09e667f3bcd)) >>
      format.fraction_bits;
  Expr mantissa = as_real(bits - (exponent << format.fraction_bits));
  Expr shift = select(subnormal, number(x, lift), number(x, 0));
  return {cast(format.real, exponent) - shift, mantissa};
}

Expr log_of_sum(const Pair& u, const Pair& w, const Expr& extra) {
  Split parts = split(u.high);
  Expr near_one = equal(parts.exponent, 0);
  Expr f = select(near_one, w.high, parts.mantissa - 1);
  Expr correction = select(near_one, w.low, u.low) / u.high;
  return log_of_parts(parts.exponent + extra, f, correction);
}

Expr define_log(const Expr& x) {
  Split parts = split(x);
  Expr result = log_of_parts(parts.exponent, parts.mantissa - 1, number(x, 0));
  result = select(x < infinity(x), result, x);
  return select(x > 0, result, select(equal(x, 0), -infinity(x), not_a_number(x)));
}

Expr define_log1p(const Expr& x) {
  Expr zero = number(x, 0);
  Expr result = log_of_sum(sum(number(x, 1), x), {x, zero}, zero);
  result = select(abs(x) > 0, result, x);  // keeps the sign of 0
  result = select(x < infinity(x), result, x);
  return select(x > -1, result, select(equal(x, -1), -infinity(x), not_a_number(x)));
}

// log(a + sqrt(a^2 + 1)); below one half, where that loses digits, a polynomial.
Expr define_asinh(const Expr& x) {
  Expr a = abs(x);
  Expr zero = number(x, 0);
  Pair square = product(a, a);
  Pair under_root = sum(square.high, number(x, 1));
  Pair root = square_root({under_root.high, under_root.low + square.low});
  Pair u = quick_sum(root.high, a);
  u.low = u.low + root.low;
  Expr large = a > number(x, kSquareIsAll);
  u = select(large, {a, zero}, u);
  Expr result = log_of_sum(u, u, select(large, number(x, 1), zero));
  Expr small = fma(a * square.high, polynomial(square.high, kAsinh), a);
  return flip_sign(select(a < 0.5, small, select(a < infinity(x), result, a)), sign_of(x));
}

// log1p(t + sqrt(t (x + 1))) with t = x - 1, which is exact wherever it matters.
Expr define_acosh(const Expr& x) {
  Expr zero = number(x, 0);
  Expr t = x - 1;
  Pair x_plus_one = sum(x, number(x, 1));
  Pair under_root = product(t, x_plus_one.high);
  Pair root = square_root({under_root.high, fma(t, x_plus_one.low, under_root.low)});
  Pair w = quick_sum(root.high, t);
  w = normalized({w.high, w.low + root.low});
  Pair u = sum(number(x, 1), w.high);
  u.low = u.low + w.low;
  Expr large = x > number(x, kSquareIsAll);
  u = select(large, {x, zero}, u);
  Expr result = log_of_sum(u, w, select(large, number(x, 1), zero));
  return in_domain(x >= 1, select(x < infinity(x), result, x), x);
}

// log1p(2a / (1 - a)) / 2
Expr define_atanh(const Expr& x) {
  Expr a = abs(x);
  Expr zero = number(x, 0);
  Pair w = normalized(quotient({a + a, zero}, sum(number(x, 1), -a)));
  Pair u = sum(number(x, 1), w.high);
  u.low = u.low + w.low;
  Expr result = select(a < 1, log_of_sum(u, w, zero) * 0.5, infinity(x));
  return in_domain(a <= 1, flip_sign(result, sign_of(x)), x);
}

}  // namespace xyntra::te::math
