#include "kir/legalize/float_codes.h"

#include <bit>
#include <cmath>

#include "types/float_formats.h"

namespace xyntra::kir {

using te::Expr;

namespace {

constexpr std::int64_t kInfinity = 0x7f800000, kQuietNaN = 0x7fc00000, kMagnitude = 0x7fffffff;
constexpr int kFraction = 23, kBias = 127;  // of f32

Expr n(std::int64_t value) { return Expr::integer(DType::I32, value); }

// Powers of two from 2^-127 (code 0, subnormal in f32) to 2^127, no sign; 0xff is NaN.
Expr encoded_scale(te::CastMode mode, const Expr& x) {
  const Expr magnitude = te::bitcast(DType::I32, x) & n(kMagnitude);
  // A subnormal at or above 2^-127 has its leading one in bit 22: moved up by one it looks like the others.
  const Expr fraction = te::select(magnitude < n(0x00800000), magnitude << n(1), magnitude) & n(0x7fffff);
  Expr code = magnitude >> n(kFraction);
  const int rounding = mode.scale_rounding % 3;
  if (rounding != 2) {
    const Expr up = rounding == 0 ? fraction >= n(0x400000) : te::not_equal(fraction, n(0));
    code = code + te::cast(DType::I32, up);
  }
  code = te::select(code > n(0xfe), n(mode.saturate ? 0xfe : 0xff), code);
  code = te::select(magnitude < n(0x00400000), n(mode.saturate ? 0 : 0xff), code);
  return te::select(magnitude > n(kInfinity), n(0xff), code);
}

}  // namespace

Expr encoded(DType dtype, te::CastMode mode, const Expr& x) {
  if (dtype == DType::F8E8M0) return encoded_scale(mode, x);
  const FloatFormat& format = float_format(dtype);
  const int dropped = kFraction - format.mantissa_bits;
  const Expr pattern = te::bitcast(DType::I32, x), magnitude = pattern & n(kMagnitude);
  const Expr is_negative = pattern < n(0);

  const Expr odd = (magnitude >> n(dropped)) & n(1);
  const Expr raised = magnitude + n((1 << (dropped - 1)) - 1) + odd;
  const Expr normal = (raised >> n(dropped)) - n(std::int64_t{kBias - format.bias} << format.mantissa_bits);
  // A subnormal is a multiple of the smallest one: added to a power of two with just that spacing, the float adder
  // rounds it, and the sum's low bits are the code.
  const int power = kFraction + 1 - format.bias - format.mantissa_bits;
  const Expr sum = te::bitcast(DType::F32, magnitude) + Expr::floating(DType::F32, std::ldexp(1.0, power));
  const Expr subnormal = te::bitcast(DType::I32, sum) - n(std::int64_t{kBias + power} << kFraction);
  Expr code =
      te::select(magnitude < n(std::int64_t{kBias + 1 - format.bias} << kFraction), subnormal, normal);

  std::int64_t beyond = format.largest_finite;  // what an overflow becomes
  if (!mode.saturate && format.specials == Specials::Ieee) beyond = format.largest_finite + 1;
  if (!mode.saturate && format.specials == Specials::OneNaN) beyond = format.nan;
  const Expr overflows = code > n(format.largest_finite);
  code = te::select(overflows, n(beyond), code);
  Expr with_sign = code | n(format.sign);
  const bool one_zero = format.specials == Specials::NegativeZero;
  if (one_zero) with_sign = te::select(te::equal(code, n(0)), n(0), with_sign);
  code = te::select(is_negative, with_sign, code);
  if (one_zero && !mode.saturate) code = te::select(overflows, n(format.nan), code);

  Expr nan = n(format.nan);
  if (format.specials == Specials::Ieee)  // keeps the upper bits of its payload
    nan = ((magnitude >> n(dropped)) & n((1 << format.mantissa_bits) - 1)) | nan;
  if (format.specials == Specials::Ieee || format.specials == Specials::OneNaN)
    nan = te::select(is_negative, nan | n(format.sign), nan);
  return te::select(magnitude > n(kInfinity), nan, code);
}

Expr decoded(DType dtype, const Expr& code) {
  if (dtype == DType::F8E8M0) {
    const Expr power = te::select(te::equal(code, n(0)), n(0x00400000), code << n(kFraction));
    return te::bitcast(DType::F32, te::select(te::equal(code, n(0xff)), n(kQuietNaN), power));
  }
  const FloatFormat& format = float_format(dtype);
  const Expr magnitude = code & n(format.sign - 1);
  const Expr sign = (code & n(format.sign)) << n(32 - std::bit_width(format.sign));
  const Expr moved = magnitude << n(kFraction - format.mantissa_bits);
  const Expr normal = moved + n(std::int64_t{kBias - format.bias} << kFraction);
  // A whole number of the smallest one: its integer, made a float, has the mantissa.
  const std::int64_t smallest = std::int64_t{format.bias + format.mantissa_bits - 1} << kFraction;
  const Expr counted = te::bitcast(DType::I32, te::cast(DType::F32, magnitude)) - n(smallest);
  const Expr subnormal = te::select(te::equal(magnitude, n(0)), n(0), counted);
  Expr bits = te::select(magnitude < n(std::int64_t{1} << format.mantissa_bits), subnormal, normal) | sign;
  const Expr beyond = magnitude > n(format.largest_finite);
  switch (format.specials) {
    case Specials::Ieee: {
      const Expr infinite = moved | n(kInfinity) | sign;
      const Expr is_infinite = te::equal(magnitude, n(format.largest_finite + 1));
      bits = te::select(beyond, te::select(is_infinite, infinite, infinite | n(kQuietNaN)), bits);
      break;
    }
    case Specials::OneNaN: bits = te::select(beyond, sign | n(kQuietNaN), bits); break;
    case Specials::NegativeZero: bits = te::select(te::equal(code, n(format.nan)), n(kQuietNaN), bits); break;
    case Specials::None: break;
  }
  return te::bitcast(DType::F32, bits);
}

Expr odd_single(const Expr& x) {
  const Expr single = te::cast(DType::F32, x), back = te::cast(DType::F64, single);
  const Expr bits = te::bitcast(DType::I32, single);
  const Expr is_inexact = (back < x) | (back > x), is_even = te::equal(bits & n(1), n(0));
  const Expr odd = bits + te::select(te::abs(back) < te::abs(x), n(1), n(-1));
  return te::bitcast(DType::F32, te::select(is_inexact & is_even, odd, bits));
}

}  // namespace xyntra::kir
