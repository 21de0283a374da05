// asin, acos, atan: odd polynomials on a short interval around 0, and identities that lead there.
#include "te/math/math_parts.h"

namespace xyntra::te::math {
namespace {

constexpr double kAtanSingle[] = {-0x1.55554ap-2, 0x1.9991e2p-3, -0x1.23b9a2p-3, 0x1.b22454p-4,
                                  -0x1.f2e58ap-5};
constexpr double kAtanDouble[] = {-0x1.5555555555554p-2, 0x1.9999999999584p-3,  -0x1.249249246f58bp-3,
                                  0x1.c71c71b458b2fp-4,  -0x1.745d14504230ep-4, 0x1.3b1364ef92ff1p-4,
                                  -0x1.110beb6dd1e91p-4, 0x1.e167babc6ff5ap-5,  -0x1.ab3beff27b86p-5,
                                  0x1.6fe4e31365365p-5,  -0x1.0fd53ccbc45fep-5, 0x1.e84c7f9009f7p-7};
constexpr Polynomial kAtan{kAtanSingle, kAtanDouble};

constexpr double kAsinSingle[] = {0x1.55554cp-3, 0x1.3338acp-4, 0x1.6ca758p-5,
                                  0x1.04d2a8p-5, 0x1.d525a2p-7, 0x1.34c60cp-5};
constexpr double kAsinDouble[] = {0x1.5555555555553p-3,  0x1.33333333339e9p-4,  0x1.6db6db6d4c41fp-5,
                                  0x1.f1c71ca6e866ep-6,  0x1.6e8b9b1855b69p-6,  0x1.1c4f8290e988bp-6,
                                  0x1.c9812df177934p-7,  0x1.7ba165bd12b95p-7,  0x1.36d58d75dd8b7p-7,
                                  0x1.47b2cf850ad8dp-7,  0x1.7523846047f94p-11, 0x1.95bcba25240f7p-6,
                                  -0x1.ab2b1bc4cc7cdp-6, 0x1.13422ba1ad0e5p-5};
constexpr Polynomial kAsin{kAsinSingle, kAsinDouble};

constexpr PairConstant kQuarterPi{{0x1.921fb6p-1, -0x1.777a5cp-26},
                                  {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};
constexpr PairConstant kPi{{0x1.921fb6p1, -0x1.777a5cp-24}, {0x1.921fb54442d18p1, 0x1.1a62633145c07p-53}};

Pair zero_pair(const Expr& x) { return {number(x, 0), number(x, 0)}; }

// asin(a) for a <= 1/2; otherwise asin(sqrt((1 - a) / 2)), which is half of acos(a).
struct AsinParts {
  Expr beyond_half;
  Pair value;
};

AsinParts asin_parts(const Expr& a) {
  Expr beyond_half = a > 0.5;
  Expr zero = number(a, 0);
  Expr half_rest = (1 - a) * 0.5;
  Pair argument = select(beyond_half, square_root({half_rest, zero}), {a, zero});
  Expr square = select(beyond_half, half_rest, a * a);
  return {beyond_half, {argument.high, fma(argument.high * square, polynomial(square, kAsin), argument.low)}};
}

// base - value, the high parts subtracted exactly.
Expr difference(const Pair& base, const Pair& value) {
  Pair head = quick_sum(base.high, -value.high);
  return head.high + (head.low + (base.low - value.low));
}

}  // namespace

Expr define_asin(const Expr& x) {
  AsinParts parts = asin_parts(abs(x));
  Pair twice{parts.value.high * 2, parts.value.low * 2};
  Expr result = select(parts.beyond_half, difference(number(x, kHalfPi), twice), value_of(parts.value));
  return flip_sign(result, sign_of(x));
}

// pi/2 - asin(x) in the middle, 2 asin(..) at the right, pi - 2 asin(..) at the left.
Expr define_acos(const Expr& x) {
  AsinParts parts = asin_parts(abs(x));
  Expr sign = sign_of(x);
  Pair twice{parts.value.high * 2, parts.value.low * 2};
  Pair asin{flip_sign(parts.value.high, sign), flip_sign(parts.value.low, sign)};
  Pair base = select(parts.beyond_half, number(x, kPi), number(x, kHalfPi));
  Expr rest = difference(base, select(parts.beyond_half, twice, asin));
  return select(x > 0.5, value_of(twice), rest);
}

// Up to tan(pi/8) directly; up to its inverse pi/4 + atan((a - 1) / (a + 1)); then pi/2 - atan(1 / a).
Expr define_atan(const Expr& x) {
  Expr a = min(abs(x), number(x, Constant{0x1p60, 0x1p120}));  // pi/2 to the last digit
  Expr middle = a > 0.41421356237309503;
  Expr large = a > 2.4142135623730949;
  Pair one{number(x, 1), number(x, 0)};
  Pair itself{a, number(x, 0)};
  Pair numerator =
      select(large, {number(x, -1), number(x, 0)}, select(middle, sum(a, number(x, -1)), itself));
  Pair denominator = select(large, itself, select(middle, sum(a, number(x, 1)), one));
  Pair base = select(large, number(x, kHalfPi), select(middle, number(x, kQuarterPi), zero_pair(x)));
  Pair t = quotient(numerator, denominator);
  Expr square = t.high * t.high;
  Expr tail = fma(t.high * square, polynomial(square, kAtan), t.low);
  return flip_sign(difference(base, {-t.high, -tail}), sign_of(x));
}

}  // namespace xyntra::te::math
