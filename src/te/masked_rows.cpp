#include "te/masked_rows.h"

#include <limits>

#include "te/walk.h"

namespace xyntra::te {

Expr lowest_finite(DType dtype) {
  return Expr::floating(dtype, dtype == DType::F64 ? std::numeric_limits<double>::lowest()
                                                   : std::numeric_limits<float>::lowest());
}

Expr at_least_lowest(const Expr& maximum) { return max(maximum, lowest_finite(maximum.dtype())); }

Expr one_for_zero(const Expr& sum) {
  return select(equal(sum, Expr::number(sum.dtype(), 0)), Expr::number(sum.dtype(), 1), sum);
}

Expr zero_for_nan(const Expr& weight) {
  return select(is_nan(weight), Expr::number(weight.dtype(), 0), weight);
}

Expr divisor_of_guarded(const Expr& sum) {
  const Expr infinity = Expr::floating(sum.dtype(), std::numeric_limits<double>::infinity());
  return max(select(is_nan(sum), infinity, sum), Expr::floating(sum.dtype(), 0x1p-126));
}

bool is_at_least_lowest(const Expr& finish) {
  return is_float(finish.dtype()) && same(finish, at_least_lowest(Expr::accumulator(finish.dtype())));
}

bool is_one_for_zero(const Expr& finish) {
  return same(finish, one_for_zero(Expr::accumulator(finish.dtype())));
}

Expr guarded_weight(const Expr& expr) {
  if (expr->op != ExprOp::Select || !is_float(expr.dtype())) return {};
  const Expr& weight = expr->operands[2];
  return same(expr, zero_for_nan(weight)) ? weight : Expr();
}

}  // namespace xyntra::te
