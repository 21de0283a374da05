#include "types/float_formats.h"

#include <array>
#include <bit>

#include "support/result.h"

namespace xyntra {
namespace {

constexpr FloatFormat kF16 = {10, 15, 0x8000, 0x7bff, 0x7e00, Specials::Ieee};
constexpr FloatFormat kBF16 = {7, 127, 0x8000, 0x7f7f, 0x7fc0, Specials::Ieee};
constexpr FloatFormat kF8E4M3FN = {3, 7, 0x80, 0x7e, 0x7f, Specials::OneNaN};
constexpr FloatFormat kF8E4M3FNUZ = {3, 8, 0x80, 0x7f, 0x80, Specials::NegativeZero};
constexpr FloatFormat kF8E5M2 = {2, 15, 0x80, 0x7b, 0x7e, Specials::Ieee};
constexpr FloatFormat kF8E5M2FNUZ = {2, 16, 0x80, 0x7f, 0x80, Specials::NegativeZero};
constexpr FloatFormat kF4E2M1 = {1, 1, 0x8, 0x7, 0x8, Specials::None};

constexpr int kF64MantissaBits = 52;
constexpr std::uint64_t kF64Infinity = 0x7ff0000000000000;
constexpr std::uint64_t kF64Magnitude = 0x7fffffffffffffff;

template <FloatFormat format>
constexpr std::uint32_t with_sign(std::uint32_t magnitude, bool negative) {
  if constexpr (format.specials == Specials::NegativeZero) {
    if (magnitude == 0) return 0;
  }
  return negative ? magnitude | format.sign : magnitude;
}

// The quiet NaN; in the IEEE formats it keeps sign and upper payload bits, as hardware conversions do.
template <FloatFormat format>
constexpr std::uint32_t encode_nan(std::uint64_t magnitude, bool negative) {
  if constexpr (format.specials == Specials::Ieee) {
    const auto payload = static_cast<std::uint32_t>(magnitude >> (kF64MantissaBits - format.mantissa_bits));
    const std::uint32_t mantissa_mask = (1u << format.mantissa_bits) - 1;
    return with_sign<format>(format.nan | (payload & mantissa_mask), negative);
  } else if constexpr (format.specials == Specials::OneNaN) {
    return with_sign<format>(format.nan, negative);
  } else {
    return format.nan;
  }
}

template <FloatFormat format>
constexpr std::uint32_t encode_overflow(bool negative, bool saturate) {
  if (saturate || format.specials == Specials::None)
    return with_sign<format>(format.largest_finite, negative);
  if (format.specials == Specials::NegativeZero) return format.nan;
  if (format.specials == Specials::OneNaN) return with_sign<format>(format.nan, negative);
  return with_sign<format>(format.largest_finite + 1, negative);  // Inf follows the largest finite code
}

// Round to nearest, ties to even. A float32 reaches here as a double, which holds it exactly, so both source
// types take this one way and are rounded once.
template <FloatFormat format>
constexpr std::uint32_t encode(double value, bool saturate) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & kF64Magnitude;
  const bool negative = bits != magnitude;
  if (magnitude > kF64Infinity) return encode_nan<format>(magnitude, negative);
  if (magnitude == kF64Infinity) return encode_overflow<format>(negative, saturate);

  // Doubles below 2^-1022 are treated as having exponent -1022 and a leading one: still far below half of the
  // smallest value of every format, so they round to zero either way.
  constexpr int kSmallestExponent = 1 - format.bias;
  const int exponent = static_cast<int>(magnitude >> kF64MantissaBits) - 1023;
  const std::uint64_t significand =
      (magnitude & ((1ull << kF64MantissaBits) - 1)) | (1ull << kF64MantissaBits);
  const int below = exponent < kSmallestExponent ? kSmallestExponent - exponent : 0;
  const int shift = kF64MantissaBits - format.mantissa_bits + below;
  if (shift > kF64MantissaBits + 1) return with_sign<format>(0, negative);

  const std::uint64_t remainder = significand & ((1ull << shift) - 1);
  const std::uint64_t half = 1ull << (shift - 1);
  std::uint64_t rounded = significand >> shift;
  if (remainder > half || (remainder == half && (rounded & 1) != 0)) ++rounded;

  // `rounded` carries the leading one, which adds one to the exponent field; a carry out of the mantissa adds
  // another. Subnormals have no leading one and land in exponent field 0.
  const int field = below > 0 ? 0 : exponent - kSmallestExponent;
  const std::uint64_t code = (static_cast<std::uint64_t>(field) << format.mantissa_bits) + rounded;
  if (code > format.largest_finite) return encode_overflow<format>(negative, saturate);
  return with_sign<format>(static_cast<std::uint32_t>(code), negative);
}

template <FloatFormat format>
constexpr float decode(std::uint32_t bits) {
  constexpr std::uint32_t kQuietNaN = 0x7fc00000;
  const std::uint32_t sign = (bits & format.sign) != 0 ? 0x80000000u : 0;
  const std::uint32_t magnitude = bits & (format.sign - 1);
  if (format.specials == Specials::NegativeZero && bits == format.nan) return std::bit_cast<float>(kQuietNaN);
  if (magnitude > format.largest_finite) {
    const std::uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
    if (format.specials == Specials::Ieee && mantissa == 0) return std::bit_cast<float>(sign | 0x7f800000);
    const std::uint32_t payload =
        format.specials == Specials::Ieee ? mantissa << (23 - format.mantissa_bits) : 0;
    return std::bit_cast<float>(sign | kQuietNaN | payload);
  }
  std::uint32_t field = magnitude >> format.mantissa_bits;
  std::uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  if constexpr (format.bias == 127) {  // the exponents of float32: only the mantissa is shorter
    return std::bit_cast<float>(sign | magnitude << (23 - format.mantissa_bits));
  }
  if (field == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    // A subnormal here is a normal float32: move its leading one into place.
    const int places = format.mantissa_bits + 1 - static_cast<int>(std::bit_width(mantissa));
    mantissa = (mantissa << places) & ((1u << format.mantissa_bits) - 1);
    const std::uint32_t exponent = static_cast<std::uint32_t>(127 - format.bias + 1 - places);
    return std::bit_cast<float>(sign | exponent << 23 | mantissa << (23 - format.mantissa_bits));
  }
  const std::uint32_t exponent = field + static_cast<std::uint32_t>(127 - format.bias);
  return std::bit_cast<float>(sign | exponent << 23 | mantissa << (23 - format.mantissa_bits));
}

constexpr std::uint8_t kScaleNaN = 0xff;
constexpr std::uint8_t kScaleLargest = 0xfe;  // 2^127
constexpr std::uint8_t kScaleSmallest = 0;  // 2^-127

float decode_scale(std::uint8_t bits) {
  if (bits == kScaleNaN) return std::bit_cast<float>(0x7fc00000u);
  // 2^-127 is the one power that is subnormal in float32.
  return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<std::uint32_t>(bits) << 23);
}

std::uint8_t encode_scale(double value, bool saturate, ScaleRounding rounding) {
  const std::uint64_t magnitude = std::bit_cast<std::uint64_t>(value) & kF64Magnitude;
  if (magnitude > kF64Infinity) return kScaleNaN;
  if (std::bit_cast<double>(magnitude) < 0x1p-127) return saturate ? kScaleSmallest : kScaleNaN;
  if (magnitude == kF64Infinity) return saturate ? kScaleLargest : kScaleNaN;

  const std::uint64_t fraction = magnitude & ((1ull << kF64MantissaBits) - 1);
  const bool up = rounding == ScaleRounding::Up        ? fraction != 0
                  : rounding == ScaleRounding::Nearest ? fraction >= 1ull << (kF64MantissaBits - 1)
                                                       : false;
  const int code = static_cast<int>(magnitude >> kF64MantissaBits) - 1023 + 127 + (up ? 1 : 0);
  if (code > kScaleLargest) return saturate ? kScaleLargest : kScaleNaN;
  return static_cast<std::uint8_t>(code);
}

}  // namespace

const FloatFormat& float_format(DType dtype) {
  switch (dtype) {
    case DType::F16: return kF16;
    case DType::BF16: return kBF16;
    case DType::F8E4M3FN: return kF8E4M3FN;
    case DType::F8E4M3FNUZ: return kF8E4M3FNUZ;
    case DType::F8E5M2: return kF8E5M2;
    case DType::F8E5M2FNUZ: return kF8E5M2FNUZ;
    case DType::F4E2M1: return kF4E2M1;
    default: internal_error("float_format: not a float of 16 bits or less");
  }
}

float f16_to_f32(std::uint16_t bits) { return decode<kF16>(bits); }
float bf16_to_f32(std::uint16_t bits) { return decode<kBF16>(bits); }
std::uint16_t f64_to_f16(double value) { return static_cast<std::uint16_t>(encode<kF16>(value, false)); }
std::uint16_t f64_to_bf16(double value) { return static_cast<std::uint16_t>(encode<kBF16>(value, false)); }
std::uint16_t f32_to_f16(float value) { return f64_to_f16(value); }

std::uint16_t f32_to_bf16(float value) {
  // Hot in evaluators, and simple, since bf16 is the upper half of float32.
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float small_float_to_f32(DType dtype, std::uint8_t bits) {
  switch (dtype) {
    case DType::F8E4M3FN: return decode<kF8E4M3FN>(bits);
    case DType::F8E4M3FNUZ: return decode<kF8E4M3FNUZ>(bits);
    case DType::F8E5M2: return decode<kF8E5M2>(bits);
    case DType::F8E5M2FNUZ: return decode<kF8E5M2FNUZ>(bits);
    case DType::F4E2M1: return decode<kF4E2M1>(bits & 15u);
    case DType::F8E8M0: return decode_scale(bits);
    default: internal_error("small_float_to_f32: not an 8-bit or 4-bit float");
  }
}

std::uint8_t f64_to_small_float(DType dtype, double value, bool saturate) {
  const auto encoded = [&]() -> std::uint32_t {
    switch (dtype) {
      case DType::F8E4M3FN: return encode<kF8E4M3FN>(value, saturate);
      case DType::F8E4M3FNUZ: return encode<kF8E4M3FNUZ>(value, saturate);
      case DType::F8E5M2: return encode<kF8E5M2>(value, saturate);
      case DType::F8E5M2FNUZ: return encode<kF8E5M2FNUZ>(value, saturate);
      case DType::F4E2M1: return encode<kF4E2M1>(value, saturate);
      case DType::F8E8M0: return encode_scale(value, saturate, ScaleRounding::Up);
      default: internal_error("f64_to_small_float: not an 8-bit or 4-bit float");
    }
  }();
  return static_cast<std::uint8_t>(encoded);
}

std::uint8_t f32_to_small_float(DType dtype, float value, bool saturate) {
  return f64_to_small_float(dtype, value, saturate);
}

std::uint8_t f32_to_f8e8m0(float value, bool saturate, ScaleRounding rounding) {
  return encode_scale(value, saturate, rounding);
}

float round_to(DType dtype, float value) {
  switch (dtype) {
    case DType::F64:
    case DType::F32: return value;
    case DType::F16: return f16_to_f32(f32_to_f16(value));
    case DType::BF16: return bf16_to_f32(f32_to_bf16(value));
    default: return small_float_to_f32(dtype, f32_to_small_float(dtype, value, true));
  }
}

}  // namespace xyntra
