#include "te/walk.h"

#include <algorithm>

namespace xyntra::te {

std::vector<Expr> index_of(const ExprNode& load) {
  return {load.operands.begin() + (load.op == ExprOp::LoadOr ? 1 : 0), load.operands.end()};
}

std::set<VarId> variables_of(const Expr& expr) {
  std::set<VarId> variables;
  for_each_node(expr, [&](const ExprNode& node) {
    if (node.op == ExprOp::Var) variables.insert(node.var);
  });
  return variables;
}

bool reads_data(const Expr& expr) {
  return any_load(expr, [](const ExprNode&) { return true; });
}

bool chooses_by_place(const ExprNode& node) {
  return node.op == ExprOp::Select && !reads_data(node.operands[0]);
}

namespace {

// Pairs of nodes that were compared, so that what is shared is compared once; one that differs ends the comparison.
using Compared = std::set<std::pair<const ExprNode*, const ExprNode*>>;

bool is_compared(const Expr& a, const Expr& b, Compared& compared) {
  return a->operands.size() > 1 && !compared.emplace(a.address(), b.address()).second;
}

bool same(const Expr& a, const Expr& b, Compared& compared) {
  if (a.address() == b.address()) return true;
  if (!a.defined() || !b.defined()) return false;
  const bool equal_node =
      a->op == b->op && a->dtype == b->dtype && a->int_value == b->int_value &&
      std::bit_cast<std::uint64_t>(a->float_value) == std::bit_cast<std::uint64_t>(b->float_value) &&
      a->size == b->size && a->var == b->var && a->buffer == b->buffer && a->cast == b->cast;
  if (!equal_node) return false;
  if (is_compared(a, b, compared)) return true;
  return std::ranges::equal(a->operands, b->operands,
                            [&](const Expr& x, const Expr& y) { return same(x, y, compared); });
}

bool is_renamed(const Expr& a, const Expr& b, std::map<VarId, VarId>& loops, Compared& compared) {
  if (a->op != b->op || a.dtype() != b.dtype() || a->operands.size() != b->operands.size()) return false;
  if (a->op == ExprOp::Var) {
    auto [known, fresh] = loops.try_emplace(a->var, b->var);
    return known->second == b->var;
  }
  if (is_compared(a, b, compared)) return true;
  for (std::size_t i = 0; i < a->operands.size(); ++i) {
    if (!is_renamed(a->operands[i], b->operands[i], loops, compared)) return false;
  }
  if (!a->operands.empty()) return same(with_operands(b, a->operands), a);
  return same(a, b);
}

}  // namespace

bool same(const Expr& a, const Expr& b) {
  Compared compared;
  return same(a, b, compared);
}

bool is_renamed(const Expr& a, const Expr& b, std::map<VarId, VarId>& loops) {
  Compared compared;
  return is_renamed(a, b, loops, compared);
}

Expr with_operands(const Expr& expr, std::vector<Expr> operands) {
  switch (expr->op) {
    case ExprOp::Load: return Expr::load(expr->buffer, expr->dtype, std::move(operands));
    case ExprOp::LoadOr: {
      Expr fallback = std::move(operands.front());
      operands.erase(operands.begin());
      return Expr::load_or(std::move(fallback), expr->buffer, std::move(operands));
    }
    case ExprOp::Cast: return cast(expr->dtype, std::move(operands[0]), expr->cast);
    case ExprOp::Bitcast: return bitcast(expr->dtype, std::move(operands[0]));
    default: return operands.empty() ? expr : Expr::make(expr->op, std::move(operands));
  }
}

Expr Rewriter::operator()(const Expr& expr) {
  if (const Done* found = done_.find(expr.address())) return found->rebuilt;
  std::vector<Expr> operands;  // empty until one is another
  for (std::size_t i = 0; i < expr->operands.size(); ++i) {
    const Expr& operand = expr->operands[i];
    Expr other = (*this)(operand);
    if (operands.empty() && other.address() == operand.address()) continue;
    if (operands.empty())
      operands.assign(expr->operands.begin(), expr->operands.begin() + static_cast<std::ptrdiff_t>(i));
    operands.push_back(std::move(other));
  }
  Expr rebuilt = operands.empty() ? expr : with_operands(expr, std::move(operands));
  Expr other = replace_(rebuilt);
  if (!other.defined() && expr->operands.empty()) return expr;  // as quick to see again as to remember
  if (other.defined()) rebuilt = std::move(other);
  return done_.add(expr.address(), Done{expr, std::move(rebuilt)}).rebuilt;
}

void Rewriter::operator()(Stage& stage) {
  for (Expr& index : stage.store) index = (*this)(index);
  for (Expr* expr : {&stage.body, &stage.finish, &stage.guard}) {
    if (expr->defined()) *expr = (*this)(*expr);
  }
  for (Stage& inner : stage.stages) (*this)(inner);
}

Expr substituted(const Expr& expr, const Substitution& variables) {
  Rewriter rewriter([&variables](const Expr& e) {
    if (e->op != ExprOp::Var) return Expr();
    auto found = variables.find(e->var.index);
    return found == variables.end() ? Expr() : found->second;
  });
  return rewriter(expr);
}

}  // namespace xyntra::te
