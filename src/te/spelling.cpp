#include "te/spelling.h"

#include <algorithm>

namespace xyntra::te {

int precedence_of(ExprOp op) {
  switch (op) {
    case ExprOp::Mul:
    case ExprOp::Div: return 6;
    case ExprOp::Add:
    case ExprOp::Sub: return 5;
    case ExprOp::ShiftLeft:
    case ExprOp::ShiftRight: return 4;
    case ExprOp::Less:
    case ExprOp::LessEqual:
    case ExprOp::Greater:
    case ExprOp::GreaterEqual:
    case ExprOp::Equal:
    case ExprOp::NotEqual: return 3;
    case ExprOp::And: return 2;
    case ExprOp::Xor:
    case ExprOp::Or: return 1;
    default: return 0;
  }
}

std::vector<Expr> SharedExprs::named() const {
  std::vector<Expr> result;
  for (const Expr& expr : finished_) {
    const Use& use = uses_.at(expr.address());
    if (use.count > 1 && use.size > most_inline_) result.push_back(expr);
  }
  return result;
}

std::int64_t SharedExprs::visit(const Expr& expr) {
  if (Use& use = uses_[expr.address()]; ++use.count > 1) return use.size;
  std::int64_t size = 1;
  for (const Expr& operand : expr->operands) size = std::min<std::int64_t>(size + visit(operand), 1 << 20);
  finished_.push_back(expr);
  return uses_[expr.address()].size = size;
}

}  // namespace xyntra::te
