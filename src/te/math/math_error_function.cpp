// erf in f32: x + x P(x^2 - c) below a bound, 1 - Q(|x| - d)^3 above: one over the other, both without an exponential.
// In f64 the second would be long: x + x P(x^2) below 1, and from there 1 - erfc(1) exp(-t Q(t)) with t = |x| - 1, where
// the exponential is so small that its error does not show.
#include <numbers>

#include "te/math/math_parts.h"

namespace xyntra::te::math {
namespace {

// Centres are chosen so that differences are exact where it matters and powers stay small.
constexpr double kErfBound = 0x1.3p0, kErfCentre = 0x1.cp-1, kRootCentre = 2.5;
constexpr double kErfSingle[] = {-0x1.098e2p-3, -0x1.d4101p-3,   0x1.f7d492p-5,  -0x1.c36d14p-7,
                                 0x1.51fd12p-9, -0x1.acf044p-12, 0x1.bf1c5cp-15, -0x1.73b136p-17};
// The third root of erfc: the less it falls, the fewer terms it takes.
constexpr double kRootOfErfcSingle[] = {0x1.2f892cp-4,   -0x1.0ec984p-3,  0x1.83966cp-4,
                                        -0x1.d8a562p-6,  -0x1.a1bfccp-10, 0x1.069e3ap-8,
                                        -0x1.bc7a8ap-11, -0x1.bb4604p-13, 0x1.0e605p-14};
constexpr Polynomial kErfShort{kErfSingle, {}}, kRootOfErfc{kRootOfErfcSingle, {}};

constexpr double kErfDouble[] = {0x1.06eba8214db69p-3,   -0x1.812746b037a25p-2, 0x1.ce2f21a0458ecp-4,
                                 -0x1.b82ce31355912p-6,  0x1.565bcd2c8bee3p-8,  -0x1.c02db93be1ebfp-11,
                                 0x1.f9a3ba6fbfb43p-14,  -0x1.f4dd0835ddacp-17, 0x1.ba6a480889dd7p-20,
                                 -0x1.639b5264f6196p-23, 0x1.135b1a2ea6fefp-26, -0x1.c62d38a701431p-30,
                                 0x1.3da491f121a5bp-33};
constexpr Polynomial kErf{{}, kErfDouble};

constexpr double kLogErfcDouble[] = {0x1.51c9b0006c239p1,    0x1.afabc11a29445p-1,   0x1.5477f09c204b7p-5,
                                     -0x1.48c9d3ef5e69p-7,   0x1.033f66131c051p-9,   -0x1.f1b3a17481013p-13,
                                     -0x1.b8dc9827e3c4p-16,  0x1.c7a3953c19bbfp-16,  -0x1.4260ac902b54p-17,
                                     0x1.1445f5294702p-19,   -0x1.307a282fa87a9p-23, -0x1.a5c062b88b52ap-24,
                                     0x1.c1775a497fb6p-25,   -0x1.01c47c23c0f53p-26, 0x1.8c89e6a8a4d3ep-29,
                                     -0x1.98735bd152a8ep-32, 0x1.0012777613ba9p-35,  -0x1.27f044f2a8327p-40};
constexpr Polynomial kLogErfc{{}, kLogErfcDouble};
constexpr double kErfcOfOne = 0x1.4226162fbddd5p-3;

Expr single_erf(const Expr& x) {
  Expr small = fma(x, polynomial(fma(x, x, number(x, -kErfCentre)), kErfShort), x);
  Expr a = abs(x);
  Expr root = polynomial(min(a, number(x, 4)) - number(x, kRootCentre), kRootOfErfc);  // from 4 on erf is 1
  Expr large = fma(-(root * root), root, number(x, 1));
  return select(a < number(x, kErfBound), small, select(x < 0, -large, large));
}

Expr double_erf(const Expr& x) {
  Expr a = abs(x);
  Expr small = fma(a, polynomial(a * a, kErf), a);
  Expr t = min(a, number(x, 6)) - 1;  // beyond, erf is 1 to the last digit
  ScaledPair parts = exp_parts({-(t * polynomial(t, kLogErfc)), number(x, 0)});
  Expr exponential = value_of(parts.mantissa) * power_of_two(parts.exponent);
  Expr large = fma(number(x, kErfcOfOne), -exponential, number(x, 1));
  return flip_sign(select(a < 1, small, large), sign_of(x));
}

// The square root of the normal distribution's share below -a, in powers of a - 3/4. From 23/4 on it is 0, exactly: the
// first coefficient is what the others make of the last point, so what comes behind the last point is 0 as well.
constexpr double kNormalEnd = 0x1.7p2, kNormalCentre = 0x1.8p-1;
constexpr double kRootOfNormalSingle[] = {0x1.e77abp-2,   -0x1.43e038p-2,  0x1.bba0b4p-7,  0x1.069ec4p-5,
                                          -0x1.872b9ep-9, -0x1.67aaa6p-9,  0x1.89e52cp-12, 0x1.6d32b4p-13,
                                          -0x1.12492p-15, -0x1.48e476p-17, 0x1.084212p-18, -0x1.0cd268p-21,
                                          0x1.8ca966p-26};
constexpr Polynomial kRootOfNormal{kRootOfNormalSingle, {}};

// One polynomial for both sides, where 1 + erf(x) would take two: next to 1/2 an ulp of erf's small results does not show.
Expr single_normal_cdf(const Expr& x) {
  Expr a = min(abs(x), number(x, kNormalEnd));
  Expr root = polynomial(a - number(x, kNormalCentre), kRootOfNormal);
  // Where a multiply-add is rounded twice, as some shader compilers make it, the last point is only nearly 0.
  Expr below = select(a < number(x, kNormalEnd), root * root, number(x, 0));
  return select(x < 0, below, fma(-root, root, number(x, 1)));
}

}  // namespace

// The share of a normal distribution below x: (1 + erf(x / sqrt 2)) / 2.
Expr define_normal_cdf(const Expr& x) {
  if (format_of(x).is_single()) return single_normal_cdf(x);
  return number(x, 0.5) * (1 + double_erf(x * number(x, 1 / std::numbers::sqrt2)));
}

Expr define_erf(const Expr& x) { return format_of(x).is_single() ? single_erf(x) : double_erf(x); }

}  // namespace xyntra::te::math
