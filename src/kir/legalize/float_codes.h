// The formats of 16 bits and less as integer arithmetic on the bits of f32 (types/float_formats.cpp has the scalar twin).
#pragma once

#include "te/expr.h"

namespace xyntra::kir {

// The code of an f32, rounded to the nearest, ties to even: an i32.
te::Expr encoded(DType dtype, te::CastMode mode, const te::Expr& x);
// The number that a code stands for, as an f32.
te::Expr decoded(DType dtype, const te::Expr& code);
// A double as an f32 that is rounded as the double is, to 16 bits: the last bit stands for all that was cut off.
te::Expr odd_single(const te::Expr& x);

}  // namespace xyntra::kir
