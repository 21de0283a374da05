#include "codegen/wgsl/passes/halves.h"

#include <cmath>

#include "te/walk.h"
#include "types/float_formats.h"

namespace xyntra::wgsl {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

bool is_half_constant(const ExprNode& node) {
  const auto value = static_cast<float>(node.float_value);
  return node.op == ExprOp::Const && node.dtype == DType::F32 && !std::isnan(value) &&
         round_to(DType::F16, value) == value;
}

// An f32 that is an f16 made wider, before it was; undefined where it is not, or where it is a constant and `constants`
// does not allow that.
Expr narrow(const Expr& wide, bool constants) {
  const ExprNode& node = *wide;
  if (node.dtype != DType::F32) return {};
  if (is_half_constant(node)) return constants ? Expr::floating(DType::F16, node.float_value) : Expr();
  switch (node.op) {
    case ExprOp::Cast: return node.operands[0].dtype() == DType::F16 ? node.operands[0] : Expr();
    case ExprOp::Neg:
    case ExprOp::Abs: {
      const Expr operand = narrow(node.operands[0], false);
      return operand.defined() ? Expr::make(node.op, {operand}) : Expr();
    }
    case ExprOp::Min:
    case ExprOp::Max: {
      const Expr a = narrow(node.operands[0], false), b = narrow(node.operands[1], true);
      return a.defined() && b.defined() ? Expr::make(node.op, {a, b}) : Expr();
    }
    case ExprOp::Select: {
      const Expr a = narrow(node.operands[1], true), b = narrow(node.operands[2], true);
      return a.defined() && b.defined() ? te::select(node.operands[0], a, b) : Expr();
    }
    default: return {};
  }
}

Expr in_halves(const Expr& expr) {
  const ExprNode& node = *expr;
  const bool compares = te::kind_of(node.op) == te::ExprKind::Compare;
  if (compares && node.operands[0].dtype() == DType::F32) {
    const Expr a = narrow(node.operands[0], false), b = narrow(node.operands[1], true);
    return a.defined() && b.defined() ? Expr::make(node.op, {a, b}) : Expr();
  }
  if (node.op != ExprOp::Cast || node.dtype != DType::F16) return {};
  const Expr& from = node.operands[0];
  if (from.dtype() == DType::F32 && (from->op == ExprOp::Add || from->op == ExprOp::Sub)) {
    const Expr a = narrow(from->operands[0], true), b = narrow(from->operands[1], true);
    return a.defined() && b.defined() ? Expr::make(from->op, {a, b}) : Expr();
  }
  return narrow(from, true);
}

kir::Stmt rebuilt(const kir::Stmt& statement, te::Rewriter& rewrite) {
  if (!statement.defined()) return statement;
  return kir::with_parts(
      statement, [&](const Expr& expr) { return rewrite(expr); },
      [&](const kir::Stmt& inner) { return rebuilt(inner, rewrite); });
}

}  // namespace

kir::Kernel with_halves(kir::Kernel kernel) {
  te::Rewriter rewrite(in_halves);
  kernel.body = rebuilt(kernel.body, rewrite);
  return kernel;
}

}  // namespace xyntra::wgsl
