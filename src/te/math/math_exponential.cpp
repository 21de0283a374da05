// exp, expm1, sinh, cosh, tanh, sigmoid: all from exp(x) = 2^k (1 + r + r^2 P(r)), |r| <= ln(2)/2.
#include "te/math/math_parts.h"

namespace xyntra::te::math {
namespace {

constexpr double kExpSingle[] = {0x1p-1,        0x1.555556p-3,  0x1.55548p-5,
                                 0x1.11107ep-7, 0x1.6d9736p-10, 0x1.a1b7f6p-13};
constexpr double kExpDouble[] = {0x1p-1,
                                 0x1.555555555555cp-3,
                                 0x1.555555555555ep-5,
                                 0x1.111111110eb6ep-7,
                                 0x1.6c16c16c13482p-10,
                                 0x1.a01a01b3d63d4p-13,
                                 0x1.a01a01b497bafp-16,
                                 0x1.71ddef4ef8a9dp-19,
                                 0x1.27e4beb7b4638p-22,
                                 0x1.af6d469f2841bp-26,
                                 0x1.1f9e93cc24531p-29};
constexpr Polynomial kExp{kExpSingle, kExpDouble};

// 2^r = 1 + r P(r), |r| <= 1/2. Last bits of the short one were moved by trial.
constexpr double kExp2Single[] = {0x1.62e432p-1, 0x1.ebfbe8p-3,  0x1.c6ae5p-5,
                                  0x1.3b26aep-7, 0x1.5f716ep-10, 0x1.470a0ap-13};
constexpr double kExp2Double[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d6p-5,
                                  0x1.3b2ab6fba4ea7p-7,  0x1.5d87fe78a130dp-10, 0x1.430912f8599f7p-13,
                                  0x1.ffcbfc7ac33ccp-17, 0x1.62c0229a373c1p-20, 0x1.b524d0eae499fp-24,
                                  0x1.e4cd9e2b0bb78p-28, 0x1.ea14222a905bp-32,  0x1.c6d8b1eb51eafp-36};
constexpr Polynomial kExp2{kExp2Single, kExp2Double};

constexpr double kSinhSingle[] = {0x1.555556p-3, 0x1.1110ep-7, 0x1.a022bap-13, 0x1.756cb2p-19};
constexpr double kSinhDouble[] = {0x1.5555555555556p-3,  0x1.111111111101ep-7,  0x1.a01a01a037265p-13,
                                  0x1.71de3a3b07404p-19, 0x1.ae646ff458b7ap-26, 0x1.6116f504e375dp-33,
                                  0x1.b5c86f2340951p-41};
constexpr Polynomial kSinh{kSinhSingle, kSinhDouble};

// tanh in f32, as erf: x + x P(x^2 - c) below a bound, 1 - Q(|x| - d)^3 above. Last bits were moved by trial.
constexpr double kTanhBound = 0x1.58p0, kTanhCentre = 0x1.cp-1, kTanhRootCentre = 1.5, kTanhEnd = 0x1.20ap3;
constexpr double kTanhSingle[] = {-0x1.baee04p-3, -0x1.77dd5cp-3,  0x1.b83p-5,     -0x1.06abf2p-6,
                                  0x1.3a555p-8,   -0x1.77f17cp-10, 0x1.bc3282p-12, -0x1.0d0a6ep-13,
                                  0x1.82a5dp-15,  -0x1.ae4a76p-17};
// The third root of 1 - tanh, up to where f32 sees 1.
constexpr double kRootOfTanhSingle[] = {0x1.d2ff7ep-2,   -0x1.28911cp-2, 0x1.406c72p-4,   -0x1.42374cp-9,
                                        -0x1.0aa8b6p-7,  0x1.2e124ap-8,  -0x1.9554e8p-10, 0x1.73b762p-12,
                                        -0x1.d11ee8p-15, 0x1.798358p-18, -0x1.646c48p-22, 0x1.27da2p-27};
constexpr Polynomial kTanhShort{kTanhSingle, {}}, kRootOfTanh{kRootOfTanhSingle, {}};

constexpr double kTanhDouble[] = {-0x1.5555555555553p-2,  0x1.1111111110dbcp-3,   -0x1.ba1ba1b9e6831p-5,
                                  0x1.664f48757718p-6,    -0x1.226e336a9d96ep-7,  0x1.d6d3731856249p-9,
                                  -0x1.7d9d7fa0160ecp-10, 0x1.351705d682acp-11,   -0x1.f198d3570ddc6p-13,
                                  0x1.820512e91d5cdp-14,  -0x1.0165e75730c69p-15, 0x1.a4b4d5930d9bcp-18};
constexpr Polynomial kTanh{{}, kTanhDouble};

// Beyond these exp is infinite, or 0 even after rounding to a subnormal.
constexpr Constant kExpHighest{89, 710};
constexpr Constant kExpLowest{-104, -746};

Expr clamp(const Expr& x, Constant low, Constant high) {
  return min(max(x, number(x, low)), number(x, high));
}
ScaledPair exp_parts(const Expr& x) { return exp_parts(Pair{x, number(x, 0)}); }

// (exp(a) + sign * exp(-a)) / 2 for a >= 0 with no overflow before the result's:
// 2^(k-1) (m + sign * 4^-k / m).
Expr half_sum_of_exps(const Expr& a, double sign) {
  ScaledPair parts = exp_parts(min(a, number(a, Constant{90, 711})));
  Pair mantissa = normalized(parts.mantissa);
  Expr exponent = min(parts.exponent, number(parts.exponent, format_of(a).fraction_bits + 2));
  Expr opposite = number(a, sign) * power_of_two(-(exponent + exponent)) / mantissa.high;
  return scale(mantissa.high + (mantissa.low + opposite), parts.exponent - 1);
}

// x + x^3 P(x^2), for x >= 0: of -0 it would make +0.
Expr odd_polynomial(const Expr& x, const Polynomial& coefficients) {
  Expr square = x * x;
  return fma(x * square, polynomial(square, coefficients), x);
}

}  // namespace

Pair exp_of_rest(const Pair& rest) {
  const Expr& r = rest.high;
  Expr tail = fma(r * r, polynomial(r, kExp), fma(r, rest.low, rest.low));
  Pair one_plus = quick_sum(number(r, 1), r);
  return {one_plus.high, one_plus.low + tail};
}

// x - k ln(2) is exact in the first fma: k is small and the difference has no bits below ln(2)'s last.
ScaledPair exp_parts(const Pair& x) {
  Pair ln2 = number(x.high, kLn2);
  Expr k = round(x.high * number(x.high, kLog2E));
  Expr high = fma(-k, ln2.high, x.high);
  Pair rest = quick_sum(high, fma(-k, ln2.low, x.low));
  return {cast(format_of(x.high).integer, k), exp_of_rest(rest)};
}

// The most used of all, so without pairs: two roundings more, and still within an ulp. What is masked out of a softmax
// comes here as something very negative: it must not go through a product that underflows, which CPUs are slow at.
Expr define_exp(const Expr& x) {
  constexpr Constant kFarBelow{-1000, -10000};  // whose power of two is 0 without being looked at
  Pair ln2 = number(x, kLn2);
  Expr inside = select(x < number(x, kExpLowest), number(x, kFarBelow), min(x, number(x, kExpHighest)));
  // Not by adding a large number and taking it away again: compilers of shaders see through that, and undo it.
  Expr k = round(inside * number(x, kLog2E));
  Expr r = fma(-k, ln2.low, fma(-k, ln2.high, inside));
  return scaled(1 + fma(r * r, polynomial(r, kExp), r), k);
}

namespace {
Expr exp2_of_rest(const Expr& r) { return fma(polynomial(r, kExp2), r, number(r, 1)); }
}  // namespace

// x - k is exact. Beyond the limits 2^x is 0 or infinite.
Expr define_exp2(const Expr& x) {
  constexpr Constant kLowest{-200, -1200}, kHighest{200, 1200};
  Expr inside = clamp(x, kLowest, kHighest);
  Expr k = round(inside);
  return scaled(exp2_of_rest(inside - k), k);
}

// No limits: what is beyond a whole number is small for every x, and scaling takes every exponent.
Expr define_exp2_by_machine(const Expr& x) {
  Expr r = beyond_whole(x);
  return scaled(exp2_of_rest(r), x - r);
}

// 2^k m - 1 with the subtraction exact. The last doubling keeps 2^k in range at the top.
Expr define_expm1(const Expr& x) {
  const Format& format = format_of(x);
  constexpr Constant kMinusOne{-18, -40};  // from here down it is -1 to the last digit
  ScaledPair parts = exp_parts(clamp(x, kMinusOne, kExpHighest));
  Expr top = number(parts.exponent, format.bias);
  Expr power = power_of_two(min(parts.exponent, top));
  Pair head = sum(power * parts.mantissa.high, number(x, -1));
  Expr result = head.high + fma(power, parts.mantissa.low, head.low);
  result = select(parts.exponent > top, power * value_of(parts.mantissa) * 2, result);
  return select(abs(x) > 0, result, x);  // keeps the sign of 0
}

// From 1 on the difference of exponentials loses nothing.
Expr define_sinh(const Expr& x) {
  Expr a = abs(x);
  return flip_sign(select(a < 1, odd_polynomial(a, kSinh), half_sum_of_exps(a, -1)), sign_of(x));
}

Expr define_cosh(const Expr& x) { return half_sum_of_exps(abs(x), 1); }

namespace {
// Two polynomials and no exponential: gates and activations are made of it by the million.
Expr single_tanh(const Expr& a) {
  Expr small = fma(a, polynomial(fma(a, a, number(a, -kTanhCentre)), kTanhShort), a);
  Expr root = polynomial(min(a, number(a, kTanhEnd)) - number(a, kTanhRootCentre), kRootOfTanh);
  Expr large = select(a >= number(a, kTanhEnd), number(a, 1), fma(-(root * root), root, number(a, 1)));
  return select(a < number(a, kTanhBound), small, large);
}

// 1 - 2 / (exp(2a) + 1) once that is above one half.
Expr double_tanh(const Expr& a) {
  ScaledPair parts = exp_parts(2 * min(a, number(a, 20)));  // 1 to the last digit there
  Pair mantissa = normalized(parts.mantissa);
  Expr power = power_of_two(parts.exponent);
  Pair denominator = sum(power * mantissa.high, number(a, 1));
  denominator.low = fma(power, mantissa.low, denominator.low);
  Pair part = quotient({number(a, 2), number(a, 0)}, denominator);
  Pair head = quick_sum(number(a, 1), -part.high);
  Expr large = head.high + (head.low - part.low);
  return select(a < 0.609375, odd_polynomial(a, kTanh), large);
}
}  // namespace

Expr define_tanh(const Expr& x) {
  Expr a = abs(x);
  return flip_sign(format_of(x).is_single() ? single_tanh(a) : double_tanh(a), sign_of(x));
}

namespace {
// A subnormal e takes a CPU hundreds of cycles wherever it is multiplied or divided. For positive x one below 2^-126 makes
// no difference; for negative x it is the result, whose bits are the number of smallest subnormals in it.
Expr sigmoid_of_single(const Expr& x) {
  constexpr double kLowest = -110, kNormal = -0x1.5d589ep6;  // the logarithm of 2^-126
  constexpr int kLowestNormal = -126, kSmallest = 149;
  Pair ln2 = number(x, kLn2);
  Expr below = -abs(x);
  Expr inside = max(below, number(x, kLowest));
  Expr k = round(inside * number(x, kLog2E));
  Expr r = fma(-k, ln2.low, fma(-k, ln2.high, inside));
  Expr mantissa = 1 + fma(r * r, polynomial(r, kExp), r);
  Expr e =
      scaled(select(below < number(x, kNormal), number(x, 1), mantissa), max(k, number(x, kLowestNormal)));
  Expr normal = select(x < 0, e, number(x, 1)) / (1 + e);
  constexpr double kWhole = 0x1p23;  // numbers from here on have no digits after the point
  Expr counted = scaled(mantissa, k + number(x, kSmallest));
  Expr bits = as_integer(counted + number(x, kWhole)) - as_integer(number(x, kWhole));
  return select(x < number(x, kNormal), as_real(bits), normal);
}
}  // namespace

// With e = exp(-|x|): 1 / (1 + e), or e / (1 + e) for negative x, whose power of two is applied last so that
// a subnormal result is rounded once.
// In f32 without pairs, as exp: gates are made of it by the million, and it stays within two and a half ulps.
Expr define_sigmoid(const Expr& x) {
  if (x.dtype() == DType::F32) {
    return sigmoid_of_single(x);
  }
  ScaledPair parts = exp_parts(max(-abs(x), number(x, kExpLowest)));
  Pair mantissa = normalized(parts.mantissa);
  Expr lowest = number(parts.exponent, -2 * format_of(x).fraction_bits);
  Expr power = power_of_two(max(parts.exponent, lowest));
  Pair denominator = quick_sum(number(x, 1), power * mantissa.high);
  denominator.low = fma(power, mantissa.low, denominator.low);
  Expr negative = x < 0;
  Pair one{number(x, 1), number(x, 0)};
  Expr ratio = value_of(quotient(select(negative, mantissa, one), denominator));
  return scale(ratio, select(negative, parts.exponent, number(parts.exponent, 0)));
}

}  // namespace xyntra::te::math
