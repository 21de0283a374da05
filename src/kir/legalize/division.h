// Divisions of integers where the machine's own faults, or gives anything, for a divisor of 0, and of -1 where there are signs.
//
//   x / y             to   select(y == 0, 0, select(y == -1, -x, x / select(y == 0 | y == -1, 1, y)))
//   floordiv(x, 3)    to   let q = x / 3; let r = x - q * 3; select(r != 0 & (r ^ 3) < 0, q - 1, q)
//   floordiv(x, 8)    to   x >> 3
//
// Afterwards `/` and rem are the machine's, and there is no floordiv and no mod.
#pragma once

#include "te/expr.h"

namespace xyntra::kir {

inline bool is_quotient(te::ExprOp op) { return op == te::ExprOp::Div || op == te::ExprOp::FloorDiv; }
inline bool is_division(te::ExprOp op) {
  return is_quotient(op) || op == te::ExprOp::Rem || op == te::ExprOp::Mod;
}

struct Division {
  te::Expr value;
  te::Expr machine;  // the machine's division in it; undefined where there is none
};
Division divided(te::ExprOp op, const te::Expr& a, const te::Expr& b);

// Of a dividend that is natural and a divisor that is not negative: no sign has to be looked at.
Division divided_naturals(te::ExprOp op, const te::Expr& a, const te::Expr& b);

}  // namespace xyntra::kir
