// For compilers behind a code generator that reckon with real numbers: what they make a constant of, or one of the operands, though it
// is another where x is NaN, infinite or a zero with a sign, is said by bits.
//
//   x - x, x + -x        0, or NaN where x is not finite
//   x / x                1, or NaN where x is 0 or not finite
//   x * 0, 0 / x         a zero with the sign of x, or NaN
//   x == x, x < x        whether x is a number; false
#pragma once

#include "te/expr.h"

namespace xyntra::kir {

// Undefined for what is none of these.
te::Expr by_bits(const te::ExprNode& node);

}  // namespace xyntra::kir
