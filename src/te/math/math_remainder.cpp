// The remainder of a division of floats, exact whatever the quotient.
//
// Both numbers become mantissas in [1, 2), m = 1.x and d = 1.y, with an integer each for the exponent. What is to be found is m * 2^e
// reduced by multiples of d, for the difference e of the exponents, 0 to 276 (to 2097 in f64). That is done some bits at a time:
//   m = m * 2^k;  m = m - round(m / d) * d
// m is a whole number of last digits of d, and no larger than about 0.6 d after each step, so that the fma which takes the multiple
// away is exact; the quotient may be off by a fraction, as it is by a product with 1 / d. Steps beyond e have k = 0, which does no harm.
// Without an fma d is taken away in two parts, of so few bits that products with a smaller quotient are exact.
#include "te/math/math_parts.h"

namespace xyntra::te::math {
namespace {

// A positive number, whose bits these are, as a mantissa and the exponent of 2. A subnormal one is a whole number of the smallest:
// its integer, made a float, has the mantissa.
struct Scaled {
  Expr mantissa, exponent;
};

Expr constant(const Format& format, std::int64_t value) { return Expr::integer(format.integer, value); }
std::int64_t hidden_bit(const Format& format) { return std::int64_t{1} << format.fraction_bits; }

Scaled scaled_parts(const Format& format, const Expr& bits) {
  const std::int64_t hidden = hidden_bit(format), one = std::int64_t{format.bias} << format.fraction_bits;
  const std::int64_t smallest = format.bias + format.fraction_bits - 1;  // 2^-smallest
  const Expr counted =
      as_integer(cast(format.real, bits)) - constant(format, smallest << format.fraction_bits);
  const Expr normal = select(bits < constant(format, hidden), counted, bits);
  return {as_real((normal & constant(format, hidden - 1)) | constant(format, one)),
          (normal >> format.fraction_bits) - format.bias};
}

struct Divisor {
  Expr inverse, negative;
  Expr high, low;  // its parts; undefined where there is an fma

  // What is left of x, reduced by multiples of it.
  Expr reduced(const Expr& x) const {
    const Expr quotient = round(x * inverse);
    return high.defined() ? x - quotient * high - quotient * low : fma(quotient, negative, x);
  }
};

Divisor divisor_of(const Format& format, const Expr& mantissa, bool fuses) {
  if (fuses) return {1 / mantissa, -mantissa, {}, {}};
  const int low_bits = format.is_single() ? 11 : 25;
  const Expr high = as_real(as_integer(mantissa) & constant(format, -(std::int64_t{1} << low_bits)));
  return {1 / mantissa, {}, high, mantissa - high};
}

// A mantissa of the divisor's scale, at least 0 and less than the divisor, as a number: its bits.
Expr bits_at_scale(const Format& format, const Expr& mantissa, const Expr& exponent) {
  const Expr bits = as_integer(mantissa), field = (bits >> format.fraction_bits) + exponent;
  const Expr hidden = constant(format, hidden_bit(format));
  const Expr subnormal =
      ((bits & constant(format, hidden_bit(format) - 1)) | hidden) >> (constant(format, 1) - field);
  const Expr normal = bits + (exponent << format.fraction_bits);
  return select(equal(mantissa, number(mantissa, 0)), constant(format, 0),
                select(field >= constant(format, 1), normal, subnormal));
}

}  // namespace

Expr define_remainder(const Expr& a, const Expr& b, bool fuses) {
  const Format& format = format_of(a);
  const int step = format.is_single() ? (fuses ? 20 : 11) : (fuses ? 49 : 25);
  const int most = (2 * format.bias + format.fraction_bits - 1) / step;
  const std::int64_t sign_bit = format.is_single() ? INT32_MIN : INT64_MIN;
  const Expr sign = as_integer(a) & constant(format, sign_bit);
  const Expr left = as_integer(a) & constant(format, ~sign_bit);
  const Expr right = as_integer(b) & constant(format, ~sign_bit);

  const Scaled dividend = scaled_parts(format, left), scaled_divisor = scaled_parts(format, right);
  const Divisor divisor = divisor_of(format, scaled_divisor.mantissa, fuses);
  const Expr difference = dividend.exponent - scaled_divisor.exponent;
  // difference / step, for what it can be.
  constexpr int kShift = 20;
  const Expr whole_steps = (difference * ((1 << kShift) / step + 1)) >> kShift;
  const Expr scale = number(a, static_cast<double>(std::uint64_t{1} << step)), once = number(a, 1);
  Expr rest = divisor.reduced(dividend.mantissa * power_of_two(difference - whole_steps * step));
  for (int k = 1; k <= most; ++k) rest = divisor.reduced(rest * select(whole_steps >= k, scale, once));
  rest = rest + select(rest < 0, scaled_divisor.mantissa, number(rest, 0));
  const Expr made = as_real(bits_at_scale(format, rest, scaled_divisor.exponent) | sign);

  const Expr infinity = constant(format, std::int64_t{2 * format.bias + 1} << format.fraction_bits);
  const Expr undefined = (left >= infinity) | (right > infinity) | equal(right, constant(format, 0));
  return select(undefined, not_a_number(a), select(left < right, a, made));
}

// The remainder with the divisor's sign.
Expr define_mod(const Expr& a, const Expr& b, bool fuses) {
  const Expr rest = define_remainder(a, b, fuses), zero = number(a, 0);
  const Expr below = b < zero;
  return select(equal(rest, zero), select(below, number(a, -0.0), zero),
                select((rest < zero) ^ below, rest + b, rest));
}

}  // namespace xyntra::te::math
