#include "kir/legalize/division.h"

#include <bit>

namespace xyntra::kir {

using te::Expr;
using te::ExprOp;

namespace {

Expr n(const Expr& like, std::int64_t value) { return Expr::integer(like.dtype(), value); }

Expr by_machine(ExprOp op, const Expr& a, const Expr& b) {
  return Expr::make(is_quotient(op) ? ExprOp::Div : ExprOp::Rem, {a, b});
}

// Rounded down by a power of two: a shift, or the low bits.
Expr by_bits(ExprOp op, const Expr& a, std::int64_t divisor) {
  const auto power = static_cast<std::uint64_t>(divisor);
  if (op == ExprOp::FloorDiv) return a >> n(a, std::bit_width(power) - 1);
  return a & n(a, divisor - 1);
}

// What truncates, made to round down.
Expr rounded_down(ExprOp op, const Expr& truncated, const Expr& a, const Expr& b) {
  const bool quotient = op == ExprOp::FloorDiv;
  const Expr rest = quotient ? a - truncated * b : truncated;
  const Expr below = te::not_equal(rest, n(a, 0)) & ((rest ^ b) < n(a, 0));
  return te::select(below, quotient ? truncated - n(a, 1) : truncated + b, truncated);
}

Division by_number(ExprOp op, const Expr& a, const Expr& b) {
  const bool is_signed = is_signed_integer(a.dtype()), quotient = is_quotient(op);
  const bool down = is_signed && (op == ExprOp::FloorDiv || op == ExprOp::Mod);
  const std::int64_t divisor = b->int_value;
  if (divisor == 0) return {n(a, 0), {}};
  if (is_signed && divisor == -1) return {quotient ? -a : n(a, 0), {}};
  if (down && divisor > 0 && std::has_single_bit(static_cast<std::uint64_t>(divisor)))
    return {by_bits(op, a, divisor), {}};
  const Expr machine = by_machine(op, a, b);
  return {down ? rounded_down(op, machine, a, b) : machine, machine};
}

}  // namespace

Division divided(ExprOp op, const Expr& a, const Expr& b) {
  if (b->op == ExprOp::Const) return by_number(op, a, b);
  const Expr by_zero = te::equal(b, n(b, 0));
  if (!is_signed_integer(a.dtype())) {
    const Expr machine = by_machine(op, a, te::select(by_zero, n(b, 1), b));
    return {te::select(by_zero, n(a, 0), machine), machine};
  }
  const Expr by_minus_one = te::equal(b, n(b, -1));
  const Expr divisor = te::select(by_zero | by_minus_one, n(b, 1), b);
  const Expr machine = by_machine(op, a, divisor);
  const bool down = op == ExprOp::FloorDiv || op == ExprOp::Mod;
  const Expr result = down ? rounded_down(op, machine, a, divisor) : machine;
  const Expr of_minus_one = is_quotient(op) ? -a : n(a, 0);
  return {te::select(by_zero, n(a, 0), te::select(by_minus_one, of_minus_one, result)), machine};
}

Division divided_naturals(ExprOp op, const Expr& a, const Expr& b) {
  if (b->op == ExprOp::Const) {
    const Expr machine = by_machine(op, a, b);
    return {machine, machine};
  }
  const Expr by_zero = te::equal(b, n(b, 0));
  const Expr machine = by_machine(op, a, te::select(by_zero, n(b, 1), b));
  return {te::select(by_zero, n(a, 0), machine), machine};
}

}  // namespace xyntra::kir
