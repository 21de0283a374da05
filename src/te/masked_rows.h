// Softmax over rows that may be masked as a whole, as attention has them: nothing is left of such a row, where exp(-inf - -inf)
// would be NaN.
//
//   m = max(max(k) x[k], lowest);  n = sum(k) exp(x[k] - m);  y[k] = exp(x[k] - m) / (n = 0 ? 1 : n)
//
// Where any x[k] is finite, n is at least 1, and all is as without these two.
#pragma once

#include "te/expr.h"

namespace xyntra::te {

Expr lowest_finite(DType dtype);
Expr at_least_lowest(const Expr& maximum);
Expr one_for_zero(const Expr& sum);

// Whether a reduced value is finished so.
bool is_at_least_lowest(const Expr& finish);
bool is_one_for_zero(const Expr& finish);

}  // namespace xyntra::te
