// erf: x + x P(x^2) below 1; from there 1 - erfc(1) exp(-t Q(t)) with t = |x| - 1, where the exponential is so small
// that its error does not show.
#include "te/math_parts.h"

namespace xyntra::te::math {
namespace {

constexpr double kErfSingle[] = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2ce6p-4, -0x1.b7f71ap-6,
                                 0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fcp-14};
constexpr double kErfDouble[] = {0x1.06eba8214db69p-3,   -0x1.812746b037a25p-2, 0x1.ce2f21a0458ecp-4,
                                 -0x1.b82ce31355912p-6,  0x1.565bcd2c8bee3p-8,  -0x1.c02db93be1ebfp-11,
                                 0x1.f9a3ba6fbfb43p-14,  -0x1.f4dd0835ddacp-17, 0x1.ba6a480889dd7p-20,
                                 -0x1.639b5264f6196p-23, 0x1.135b1a2ea6fefp-26, -0x1.c62d38a701431p-30,
                                 0x1.3da491f121a5bp-33};
constexpr Polynomial kErf{kErfSingle, kErfDouble};

constexpr double kLogErfcSingle[] = {0x1.51c9acp1,   0x1.afacf6p-1,  0x1.540626p-5,
                                     -0x1.4466b8p-7, 0x1.e0480cp-10, -0x1.88294ep-13};
constexpr double kLogErfcDouble[] = {0x1.51c9b0006c239p1,    0x1.afabc11a29445p-1,   0x1.5477f09c204b7p-5,
                                     -0x1.48c9d3ef5e69p-7,   0x1.033f66131c051p-9,   -0x1.f1b3a17481013p-13,
                                     -0x1.b8dc9827e3c4p-16,  0x1.c7a3953c19bbfp-16,  -0x1.4260ac902b54p-17,
                                     0x1.1445f5294702p-19,   -0x1.307a282fa87a9p-23, -0x1.a5c062b88b52ap-24,
                                     0x1.c1775a497fb6p-25,   -0x1.01c47c23c0f53p-26, 0x1.8c89e6a8a4d3ep-29,
                                     -0x1.98735bd152a8ep-32, 0x1.0012777613ba9p-35,  -0x1.27f044f2a8327p-40};
constexpr Polynomial kLogErfc{kLogErfcSingle, kLogErfcDouble};
constexpr Constant kErfcOfOne{0x1.422616p-3, 0x1.4226162fbddd5p-3};

}  // namespace

Expr define_erf(const Expr& x) {
  Expr a = abs(x);
  Expr small = fma(a, polynomial(a * a, kErf), a);
  Expr t = min(a, number(x, Constant{4, 6})) - 1;  // beyond, erf is 1 to the last digit
  ScaledPair parts = exp_parts({-(t * polynomial(t, kLogErfc)), number(x, 0)});
  Expr exponential = value_of(parts.mantissa) * power_of_two(parts.exponent);
  Expr large = fma(number(x, kErfcOfOne), -exponential, number(x, 1));
  return flip_sign(select(a < 1, small, large), sign_of(x));
}

}  // namespace xyntra::te::math
