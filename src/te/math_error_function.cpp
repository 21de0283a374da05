// erf: x + x P(x^2) near 0; elsewhere 1 - erfc(|x|) with erfc(a) = exp(-a^2) u P(u), u = 1 / (a + 2).
#include "te/math_parts.h"

namespace xyntra::te::math {
namespace {

constexpr double kErfSingle[] = {0x1.06eba8p-3, -0x1.81273ep-2, 0x1.ce2ce6p-4, -0x1.b7f71ap-6, 0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fcp-14};
constexpr double kErfDouble[] = {0x1.06eba8214db69p-3, -0x1.812746b037a25p-2, 0x1.ce2f21a0458ecp-4, -0x1.b82ce31355912p-6, 0x1.565bcd2c8bee3p-8, -0x1.c02db93be1ebfp-11, 0x1.f9a3ba6fbfb43p-14, -0x1.f4dd0835ddacp-17, 0x1.ba6a480889dd7p-20, -0x1.639b5264f6196p-23, 0x1.135b1a2ea6fefp-26, -0x1.c62d38a701431p-30, 0x1.3da491f121a5bp-33};
constexpr Polynomial kErf{kErfSingle, kErfDouble};

constexpr double kErfcSingle[] = {0x1.1a1a9ap-1, 0x1.5e7bbep0, 0x1.e13448p-3, 0x1.1cc9e2p3, -0x1.a05af8p2};
constexpr double kErfcDouble[] = {0x1.20e379eb7c5c4p-1, 0x1.204ee29c0dc4dp0, 0x1.02c842b2f5cep1, 0x1.1a7ac7318e913p1, 0x1.0155f645a80ap3, -0x1.08e182d0ebc03p5, 0x1.0f911612f0d2dp7, -0x1.c40d8949e0fe8p8, 0x1.c1435b641de24p9, -0x1.05b9c395b0524p10, 0x1.52a67d2d124ep9, -0x1.7d30b7345e57ep7};
constexpr Polynomial kErfc{kErfcSingle, kErfcDouble};

// 1 - erfc(a) for 1 <= a <= 6. The square's rounding error goes into the exponential, which would magnify it.
Expr erf_beyond_one(const Expr& a) {
  Pair square = product(a, a);
  ScaledPair parts = exp_parts({-square.high, -square.low});
  Expr u = 1 / (a + 2);
  Expr exponential = value_of(parts.mantissa) * power_of_two(parts.exponent);
  return fma(-(u * polynomial(u, kErfc)), exponential, number(a, 1));
}

}  // namespace

Expr define_erf(const Expr& x) {
  Expr a = abs(x);
  Expr small = fma(x, polynomial(x * x, kErf), x);
  Expr highest = number(x, Constant{4, 6});  // 1 to the last digit
  Expr large = flip_sign(erf_beyond_one(min(a, highest)), sign_of(x));
  return select(a < 1, small, large);
}

}  // namespace xyntra::te::math
