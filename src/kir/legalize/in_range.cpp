// Operations that machines have for some operands alone, where they are others: divisors that are not 0, shifts by less than the
// width, floats within the range of an integer. Floats are made whole by additions where there is no instruction for it.
#include <cmath>

#include "kir/legalize/arithmetic.h"
#include "kir/legalize/division.h"

namespace xyntra::kir {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

DType without_sign(DType integer) {
  switch (integer) {
    case DType::I2: return DType::U2;
    case DType::I4: return DType::U4;
    case DType::I8: return DType::U8;
    case DType::I16: return DType::U16;
    case DType::I32: return DType::U32;
    case DType::I64: return DType::U64;
    default: return integer;
  }
}

Expr with_sign_of(const Expr& x, const Expr& value) {
  const bool is_double = x.dtype() == DType::F64;
  const DType word = is_double ? DType::I64 : DType::I32;
  const Expr sign = Expr::integer(word, is_double ? INT64_MIN : INT32_MIN);
  return te::bitcast(x.dtype(), (te::bitcast(word, value) & ~sign) | (te::bitcast(word, x) & sign));
}

// Above 2^23 (2^52) every float is whole. Below, adding that much and taking it away rounds to the nearest.
Expr rounded_by_sums(ExprOp op, const Expr& x) {
  const Expr whole_from = Expr::floating(x.dtype(), x.dtype() == DType::F64 ? 0x1p52 : 0x1p23);
  const Expr one = Expr::floating(x.dtype(), 1);
  const Expr magnitude = te::abs(x), nearest = (magnitude + whole_from) - whole_from;
  Expr result = with_sign_of(x, nearest);
  switch (op) {
    case ExprOp::Trunc:
      result = with_sign_of(x, te::select(nearest > magnitude, nearest - one, nearest));
      break;
    case ExprOp::Floor: result = te::select(result > x, result - one, result); break;
    case ExprOp::Ceil: result = te::select(result < x, result + one, result); break;
    default: break;
  }
  result = with_sign_of(x, result);  // ceil(-0.5) = -0
  return te::select(magnitude < whole_from, result, x * one);  // arithmetic on a NaN makes the one NaN
}

// Both ends are exact in any float: what truncates into the range lies strictly between them.
Expr saturated(DType to, const Expr& x) {
  const int bits = bits_of(to);
  const bool is_signed = is_signed_integer(to);
  auto limit = [&](double value) { return Expr::floating(x.dtype(), value); };
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const Expr above = x >= limit(end);
  const Expr inside = (is_signed ? x >= limit(-end) : x > limit(-1)) & !above;
  Expr made = te::cast(to, te::select(inside, x, limit(0)));
  if (is_signed) made = te::select(x < limit(-end), Expr::integer(to, lowest_integer(to)), made);
  return te::select(above, Expr::integer(to, static_cast<std::int64_t>(highest_integer(to))), made);
}

// By the width or more, or by a negative number, leaves nothing but the sign.
Expr shifted_within(ExprOp op, const Expr& x, const Expr& places) {
  const DType dtype = x.dtype();
  const int width = bits_of(dtype);
  auto n = [dtype](std::int64_t value) { return Expr::integer(dtype, value); };
  const bool keeps_sign = op == ExprOp::ShiftRight && is_signed_integer(dtype);
  if (places->op == ExprOp::Const) {
    if (places->int_value >= 0 && places->int_value < width) return {};
    return keeps_sign ? x >> n(width - 1) : n(0);
  }
  const Expr natural = te::cast(without_sign(dtype), places);  // large where it is negative
  const Expr beyond = natural >= Expr::integer(natural.dtype(), width);
  if (keeps_sign) return x >> te::select(beyond, n(width - 1), places);
  return te::select(beyond, n(0), Expr::make(op, {x, te::select(beyond, n(0), places)}));
}

Expr integer_in_range(const ExprNode& node, const TargetOps& target) {
  const std::vector<Expr>& o = node.operands;
  switch (node.op) {
    case ExprOp::Div:
    case ExprOp::FloorDiv:
    case ExprOp::Rem:
    case ExprOp::Mod:
      return target.divides || node.dtype == DType::I64 ? Expr() : divided(node.op, o[0], o[1]).value;
    case ExprOp::ShiftLeft:
    case ExprOp::ShiftRight: return target.shifts_far ? Expr() : shifted_within(node.op, o[0], o[1]);
    default: return {};
  }
}

}  // namespace

Expr in_range(const ExprNode& node, const TargetOps& target) {
  switch (node.op) {
    case ExprOp::Cast: {
      const Expr& x = node.operands[0];
      const bool truncates = is_float(x.dtype()) && is_integer(node.dtype) && !target.saturates;
      return truncates ? saturated(node.dtype, bits_of(x.dtype()) < 32 ? te::cast(DType::F32, x) : x)
                       : Expr();
    }
    case ExprOp::Floor:
    case ExprOp::Ceil:
    case ExprOp::Round:
    case ExprOp::Trunc: return target.rounds ? Expr() : rounded_by_sums(node.op, node.operands[0]);
    default: return is_integer(node.dtype) ? integer_in_range(node, target) : Expr();
  }
}

}  // namespace xyntra::kir
