// Scalar conversions between float32/float64 and the narrow float formats, exact where the value exists
// and rounded to nearest, ties to even, otherwise. `saturate` decides what an f8/f4 overflow becomes: the
// largest finite value, or NaN/Inf as ONNX's Cast tables say. One place, used by the evaluator, constant
// folding, readers and tests.
#pragma once

#include <cstdint>

#include "types/dtype.h"

namespace xyntra {

// What the codes beyond the finite values mean.
enum class Specials : std::uint8_t {
  Ieee,          // all exponent bits set: Inf, then NaNs
  OneNaN,        // FN: all bits set is NaN, no Inf
  NegativeZero,  // FNUZ: the code of -0 is the one NaN; no Inf, no -0
  None,          // only numbers
};

struct FloatFormat {
  int mantissa_bits, bias;
  std::uint32_t sign;            // mask of the sign bit
  std::uint32_t largest_finite;  // its code
  std::uint32_t nan;             // its code, without sign
  Specials specials;
};
const FloatFormat& float_format(DType dtype);  // of 16 bits or less, F8E8M0 apart, which has powers alone

float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
std::uint16_t f64_to_f16(double value);  // one rounding, not two
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);  // NaN stays NaN (quiet)
std::uint16_t f64_to_bf16(double value);

// The 8-bit and 4-bit kinds: F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F4E2M1.
float small_float_to_f32(DType dtype, std::uint8_t bits);
std::uint8_t f32_to_small_float(DType dtype, float value, bool saturate);
std::uint8_t f64_to_small_float(DType dtype, double value, bool saturate);  // one rounding, not two
// To F8E8M0 this rounds as ScaleRounding::Up, ONNX's default. F4E2M1 has neither NaN nor Inf: it always
// saturates, and NaN becomes -0 as in ONNX's own data.

// ONNX Cast's round_mode, for F8E8M0 only: powers of two, no sign (it is ignored), no zero. What is below the
// smallest value (zero too) or above the largest becomes that value, or NaN when not saturating. Nearest
// rounds ties up.
enum class ScaleRounding { Nearest, Up, Down };
std::uint8_t f32_to_f8e8m0(float value, bool saturate, ScaleRounding rounding);

// The nearest value representable in `dtype` (a float dtype), as a float: the rounding a store would do, with
// saturation for the 8-bit and 4-bit kinds.
float round_to(DType dtype, float value);

}  // namespace xyntra
