// pow(x, y) = 2^(y log2|x|), the logarithm to twice the precision, and C99's rules for everything special.
#include "te/math/math_parts.h"

namespace xyntra::te::math {
namespace {

// log((1 + s) / (1 - s)) = 2s + s z (2/3 + z P(z)), z = s^2
constexpr double kLogPairSingle[] = {0x1.999998p-2, 0x1.2493b6p-2, 0x1.c63da8p-3, 0x1.9083ecp-3};
constexpr double kLogPairDouble[] = {0x1.9999999999996p-2, 0x1.2492492492f53p-2, 0x1.c71c71c5962aap-3,
                                     0x1.745d182994615p-3, 0x1.3b1364b629748p-3, 0x1.1120725b4c7ep-3,
                                     0x1.de3ce5f0321cep-4, 0x1.eaca820093e12p-4};
constexpr Polynomial kLogPair{kLogPairSingle, kLogPairDouble};

constexpr PairConstant kTwoThirds{{0x1.555556p-1, -0x1.555556p-26},
                                  {0x1.5555555555555p-1, 0x1.5555555555555p-55}};
constexpr PairConstant kLog2EPair{{0x1.715476p0, 0x1.4ae0cp-26},
                                  {0x1.71547652b82fep0, 0x1.777d0ffda0d24p-56}};

// log2(a) for finite a > 0. Relative error about 2^-36 in f32 and 2^-65 in f64.
Pair log2_pair(const Expr& a) {
  Split parts = split(a);
  Expr zero = number(a, 0);
  Pair s = quotient({parts.mantissa - 1, zero}, sum(parts.mantissa, number(a, 1)));
  s = normalized(s);
  Pair square = product(s, s);
  Pair two_thirds = number(a, kTwoThirds);
  Pair factor = quick_sum(two_thirds.high, square.high * polynomial(square.high, kLogPair));
  factor.low = factor.low + two_thirds.low;
  Pair cubic = product(product(factor, square), s);
  Pair log = quick_sum(s.high * 2, cubic.high);
  log = normalized({log.high, log.low + fma(s.low, number(a, 2), cubic.low)});
  Pair log2 = product(log, number(a, kLog2EPair));
  Pair result = quick_sum(parts.exponent, log2.high);
  return normalized({result.high, result.low + log2.low});
}

// 2^x, overflowing to infinity and to 0.
Expr exp2_of_pair(const Pair& x) {
  // Outside, the result is infinite or 0 and the low part may be NaN.
  Expr lowest = number(x.high, Constant{-160, -1100});
  Expr highest = number(x.high, Constant{140, 1040});
  Expr inside = (x.high > lowest) & (x.high < highest);
  Expr high = min(max(x.high, lowest), highest);
  Expr low = select(inside, x.low, number(high, 0));
  Expr k = round(high);
  Pair ln2 = number(high, kLn2);
  Pair rest = product(high - k, ln2.high);
  Expr tail = fma(high - k, ln2.low, fma(low, ln2.high, rest.low));
  return scale(value_of(exp_of_rest(quick_sum(rest.high, tail))), cast(format_of(high).integer, k));
}

}  // namespace

Expr define_pow(const Expr& x, const Expr& y) {
  Expr a = abs(x);
  Expr zero = number(x, 0), one = number(x, 1);
  Pair log2 = log2_pair(a);
  Pair exponent = product(y, log2.high);
  exponent.low = fma(y, log2.low, exponent.low);
  Expr magnitude = exp2_of_pair(exponent);
  Expr at_zero = equal(a, 0);
  Expr at_infinity = equal(a, infinity(x));
  magnitude = select(at_zero | at_infinity, select(at_zero ^ (y > 0), infinity(x), zero), magnitude);
  magnitude = select(equal(a, 1), one, magnitude);

  Expr is_integer = equal(floor(y), y);
  Expr half = y * 0.5;
  Expr is_odd = is_integer & not_equal(floor(half), half);
  Expr result = flip_sign(magnitude, select(is_odd, sign_of(x), number(sign_of(x), 0)));
  Expr undefined = (x < 0) & (x > -infinity(x)) & !is_integer;
  result = select(undefined | is_nan(x) | is_nan(y), not_a_number(x), result);
  return select(equal(y, 0) | equal(x, 1), one, result);
}

}  // namespace xyntra::te::math
