// Softmax over rows that may be masked as a whole, as attention has them: nothing is left of such a row, where exp(-inf - -inf)
// would be NaN.
//
//   m = max(max(k) x[k], lowest);  n = sum(k) exp(x[k] - m);  y[k] = exp(x[k] - m) / (n = 0 ? 1 : n)
//
// Where any x[k] is finite, n is at least 1, and all is as without these two.
//
// torch exports attention with weights that are no number replaced: y[k] = isnan(x) ? 0 : x of x = exp(x[k] - m) / n. All of a row are
// none or none is, as n says. So may it be told when weights have been added up, which are then divided by infinity:
//
//   sum(k) y[k] v[k] = (sum(k) (isnan(e) ? 0 : e) v[k]) / max(isnan(n) ? inf : n, 2^-126)   of e = exp(x[k] - m)
//
// n is at least 1, or 0 where nothing is left of the row.
#pragma once

#include "te/expr.h"

namespace xyntra::te {

Expr lowest_finite(DType dtype);
Expr at_least_lowest(const Expr& maximum);
Expr one_for_zero(const Expr& sum);
Expr zero_for_nan(const Expr& weight);
Expr divisor_of_guarded(const Expr& sum);

// Whether a reduced value is finished so.
bool is_at_least_lowest(const Expr& finish);
bool is_one_for_zero(const Expr& finish);
// The weight that an expression replaces where it is NaN; undefined for every other expression.
Expr guarded_weight(const Expr& expr);

}  // namespace xyntra::te
