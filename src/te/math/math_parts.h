// What the definitions of math functions are built from: formats, polynomials, and pairs.
//
// A Pair is an unevaluated sum high + low with |low| no more than about an ulp of high. It carries twice the
// digits of its format through the few steps where one rounding would be visible in the result.
// Notation in comments: u is half an ulp of 1 (2^-24 in f32).
#pragma once

#include <array>
#include <span>

#include "te/expr.h"

namespace xyntra::te::math {

// A constant that depends on the format.
struct Constant {
  double f32;
  double f64;
};

// A constant to twice the precision of each format.
struct PairConstant {
  std::array<double, 2> f32, f64;
};

inline constexpr PairConstant kHalfPi{{0x1.921fb6p0, -0x1.777a5cp-25},
                                      {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54}};

// Coefficients, lowest power first. scripts/minimax.py finds them.
struct Polynomial {
  std::span<const double> f32;
  std::span<const double> f64;
};

// The layout of f32 or f64 and the integers of the same width.
struct Format {
  DType real;
  DType integer;
  DType word;  // unsigned
  int width;
  int fraction_bits;
  int bias;

  bool is_single() const { return real == DType::F32; }
  double largest() const;
  double smallest_normal() const;
};

const Format& format_of(const Expr& x);

struct Pair {
  Expr high;
  Expr low;
};

// Constants of x's dtype.
Expr number(const Expr& x, double value);
Expr number(const Expr& x, Constant value);
Pair number(const Expr& x, const PairConstant& value);
Expr infinity(const Expr& x);
Expr not_a_number(const Expr& x);

Expr polynomial(const Expr& x, const Polynomial& coefficients);

// Bits.
Expr as_integer(const Expr& x);                    // the bits as the signed integer of the same width
Expr as_word(const Expr& x);                       // the bits as the unsigned one
Expr as_real(const Expr& bits);                    // back
Expr sign_of(const Expr& x);                       // the sign bit alone, as a word
Expr flip_sign(const Expr& x, const Expr& sign);   // x with its sign bit xor-ed
Expr power_of_two(const Expr& exponent);           // for exponents of normal numbers
Expr scale(const Expr& x, const Expr& exponent);   // x * 2^exponent, rounded once even if subnormal
// The same for a whole number that is a float, which may be far below. Some machines have an instruction for it: it is
// written x << exponent until `without_scaling` says how to do it otherwise.
Expr scaled(const Expr& x, const Expr& exponent);
Expr beyond_whole(const Expr& x);  // x less the nearest whole number, for such machines alone: written x >> 0
Expr without_scaling(const Expr& shift);

// Pairs. quick_sum needs |a| >= |b| or a = 0.
Pair quick_sum(const Expr& a, const Expr& b);
Pair sum(const Expr& a, const Expr& b);
Pair product(const Expr& a, const Expr& b);
Pair product(const Pair& a, const Pair& b);
Pair quotient(const Pair& a, const Pair& b);
Pair square_root(const Pair& a);  // of 0 too
Pair select(const Expr& condition, const Pair& when_true, const Pair& when_false);
Pair normalized(const Pair& a);  // low within half an ulp of high
Expr value_of(const Pair& a);  // rounded

inline constexpr PairConstant kLn2{{0x1.62e43p-1, -0x1.05c61p-29},
                                   {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}};
inline constexpr Constant kLog2E{0x1.715476p0, 0x1.71547652b82fep0};

// exp(x) = 2^exponent * (mantissa.high + mantissa.low). The mantissa is in [0.7, 1.42] and not normalized: its
// low part may be 0.07. NaN stays NaN in the mantissa.
struct ScaledPair {
  Expr exponent;  // integer
  Pair mantissa;
};
ScaledPair exp_parts(const Pair& x);  // |x| such that the exponent fits its integer
Pair exp_of_rest(const Pair& rest);  // the mantissa for |rest| <= ln(2)/2

// x = mantissa * 2^exponent, the mantissa in [sqrt(1/2), sqrt(2)), for finite x > 0; subnormal too.
struct Split {
  Expr exponent;  // a float
  Expr mantissa;
};
Split split(const Expr& x);

// log(u) + extra * ln(2), given also w = u - 1, which is what counts near 1.
Expr log_of_sum(const Pair& u, const Pair& w, const Expr& extra);

// The definitions, one file per family.
Expr define_exp(const Expr& x);
Expr define_exp2(const Expr& x);
Expr define_exp2_by_machine(const Expr& x);  // by shifts of floats; the same bits
Expr define_expm1(const Expr& x);
Expr define_sinh(const Expr& x);
Expr define_cosh(const Expr& x);
Expr define_tanh(const Expr& x);
Expr define_sigmoid(const Expr& x);
Expr define_log(const Expr& x);
Expr define_log1p(const Expr& x);
Expr define_asinh(const Expr& x);
Expr define_acosh(const Expr& x);
Expr define_atanh(const Expr& x);
Expr define_erf(const Expr& x);
Expr define_normal_cdf(const Expr& x);
Expr define_sin(const Expr& x);
Expr define_cos(const Expr& x);
Expr define_tan(const Expr& x);
Expr define_asin(const Expr& x);
Expr define_acos(const Expr& x);
Expr define_atan(const Expr& x);
Expr define_pow(const Expr& x, const Expr& y);
Expr define_remainder(const Expr& a, const Expr& b, bool fuses);  // fuses: fma is rounded once, and quick
Expr define_mod(const Expr& a, const Expr& b, bool fuses);

}  // namespace xyntra::te::math
