// Where a compiler that reckons with real numbers, as those of shaders do, would change what floats are.
#pragma once

#include <unordered_set>

#include "kir/kernel.h"

namespace xyntra::codegen {

// Quotients of a statement of which a whole number is made: an error in their last digit would be one of a whole.
std::unordered_set<const te::ExprNode*> rounded_quotients(const kir::StmtNode& statement);

// Sums and products of a statement whose rounding shows in what follows, where a compiler that reckons with real numbers would take
// both for one: (x + c) - c, (a + b) - a, (x * c) * d, (x + c) * d, x * c + y * c, x * y + x * z, x * c - m, where m may be the largest
// of them, and fma(a, b, -(a * b)). So are sqrt(x) * sqrt(x), which is NaN where x is negative, sums that are compared with a number,
// and sums whose sign is changed: -(a - b) is -0 where a is b, and b - a is 0.
std::unordered_set<const te::ExprNode*> cancelling(const kir::Kernel& kernel, const kir::StmtNode& statement);

}  // namespace xyntra::codegen
