#include "te/match.h"

namespace xyntra::te {

bool matches(const Expr& pattern, const Expr& expr, Substitution& bound) {
  if (pattern->op == ExprOp::Var) {
    auto [known, fresh] = bound.try_emplace(pattern->var.index, expr);
    return same(known->second, expr);
  }
  const std::vector<Expr>&parts = pattern->operands, &others = expr->operands;
  if (parts.empty() || is_load(*pattern)) return same(pattern, expr);
  if (pattern->op != expr->op || pattern.dtype() != expr.dtype() || parts.size() != others.size())
    return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!matches(parts[i], others[i], bound)) return false;
  }
  return true;
}

}  // namespace xyntra::te
