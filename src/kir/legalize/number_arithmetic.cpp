// Operations on integers and floats that are others on machines.
#include "kir/legalize/arithmetic.h"

namespace xyntra::kir {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

Expr legal_integer(const ExprNode& node) {
  const std::vector<Expr>& o = node.operands;
  const bool is_signed = is_signed_integer(node.dtype);
  switch (node.op) {
    case ExprOp::Floor:
    case ExprOp::Ceil:
    case ExprOp::Round:
    case ExprOp::Trunc: return o[0];
    case ExprOp::Abs: return is_signed ? Expr() : o[0];
    case ExprOp::FloorDiv: return is_signed ? Expr() : o[0] / o[1];
    case ExprOp::Mod: return is_signed ? Expr() : rem(o[0], o[1]);
    case ExprOp::Fma: return o[0] * o[1] + o[2];
    default: return {};
  }
}

namespace {

// What needs no rounding. Of 8 bits and less an infinity becomes the largest number, whatever is done to it.
bool is_exact(const ExprNode& node, const TargetOps& target) {
  if (bits_of(node.dtype) < 16) return false;
  switch (node.op) {
    case ExprOp::Neg:
    case ExprOp::Abs:
    case ExprOp::Min:
    case ExprOp::Max: return true;
    case ExprOp::Add:
    case ExprOp::Sub: return node.dtype == DType::F16 && target.adds_halves;
    default: return false;
  }
}

// As an f32. The opposite of one is one, so that x + -x is still seen to be that.
Expr widened(const Expr& x) {
  const bool moves = x->op == ExprOp::Neg || x->op == ExprOp::Abs;
  return moves && bits_of(x.dtype()) >= 16 ? Expr::make(x->op, {widened(x->operands[0])})
                                           : te::cast(DType::F32, x);
}

}  // namespace

Expr legal_float(const ExprNode& node, const TargetOps& target) {
  if (te::is_float_remainder(node.op, node.dtype))
    return te::expand_remainder(node.op, node.operands[0], node.operands[1], target.fuses);
  if (bits_of(node.dtype) < 32) {
    if (is_exact(node, target)) return {};
    std::vector<Expr> wide;
    for (const Expr& operand : node.operands) wide.push_back(widened(operand));
    const Expr made = Expr::make(node.op, std::move(wide));
    const Expr legal = legal_float(*made, target);
    return te::cast(node.dtype, legal.defined() ? legal : made);
  }
  return node.op == ExprOp::FloorDiv ? te::floor(node.operands[0] / node.operands[1]) : Expr();
}

}  // namespace xyntra::kir
