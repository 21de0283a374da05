#include "te/math/math.h"

#include <unordered_map>

#include "support/result.h"
#include "te/math/math_parts.h"
#include "te/walk.h"

namespace xyntra::te {
namespace {

using Define = Expr (*)(const Expr&);

Define definition_of(ExprOp op) {
  switch (op) {
    case ExprOp::Exp: return math::define_exp;
    case ExprOp::Exp2: return math::define_exp2;
    case ExprOp::Expm1: return math::define_expm1;
    case ExprOp::Log: return math::define_log;
    case ExprOp::Log1p: return math::define_log1p;
    case ExprOp::Erf: return math::define_erf;
    case ExprOp::NormalCdf: return math::define_normal_cdf;
    case ExprOp::Tanh: return math::define_tanh;
    case ExprOp::Sigmoid: return math::define_sigmoid;
    case ExprOp::Sin: return math::define_sin;
    case ExprOp::Cos: return math::define_cos;
    case ExprOp::Tan: return math::define_tan;
    case ExprOp::Asin: return math::define_asin;
    case ExprOp::Acos: return math::define_acos;
    case ExprOp::Atan: return math::define_atan;
    case ExprOp::Sinh: return math::define_sinh;
    case ExprOp::Cosh: return math::define_cosh;
    case ExprOp::Asinh: return math::define_asinh;
    case ExprOp::Acosh: return math::define_acosh;
    case ExprOp::Atanh: return math::define_atanh;
    default: internal_error("te: this operation has no definition by others");
  }
}

// Definitions are short: a shift of a float in one stands for a scaling.
Expr with_arithmetic(const Expr& definition) {
  Rewriter rewriter([](const Expr& expr) {
    bool scales = expr->op == ExprOp::ShiftLeft && is_float(expr.dtype());
    return scales ? math::without_scaling(expr) : Expr();
  });
  return rewriter(definition);
}

// Powers of two by a unit, and what is made of one; undefined for all others.
Expr by_unit(ExprOp op, const Expr& x) {
  constexpr double kLog2e = 1.4426950408889634;
  const Expr one = Expr::number(DType::F32, 1);
  switch (op) {
    case ExprOp::Exp2: return exp2(x);
    case ExprOp::Exp: return exp2(x * Expr::number(DType::F32, kLog2e));
    case ExprOp::Sigmoid: return one / (one + exp2(x * Expr::number(DType::F32, -kLog2e)));
    default: return {};
  }
}

Expr defined(ExprOp op, const std::vector<Expr>& operands, Scaling scaling) {
  if (op == ExprOp::Pow) return math::define_pow(operands.at(0), operands.at(1));
  if (scaling == Scaling::ByUnit && operands.at(0).dtype() == DType::F32) {
    if (Expr found = by_unit(op, operands[0]); found.defined()) return found;
  }
  const bool machine = scaling == Scaling::ByMachine;
  if (op == ExprOp::Exp2 && machine) return math::define_exp2_by_machine(operands.at(0));
  const Expr definition = definition_of(op)(operands.at(0));
  const bool scales = op == ExprOp::Exp || op == ExprOp::Exp2 || op == ExprOp::Sigmoid;
  return scales && !machine ? with_arithmetic(definition) : definition;
}

class MathExpander {
 public:
  explicit MathExpander(Scaling scaling) : scaling_(scaling) {}

  Expr expanded(const Expr& expr) {
    if (expr->operands.empty()) return expr;
    if (auto known = known_.find(expr.address()); known != known_.end()) return known->second;
    std::vector<Expr> operands;
    bool changed = false;
    for (const Expr& operand : expr->operands) {
      operands.push_back(expanded(operand));
      changed |= operands.back().address() != operand.address();
    }
    Expr result = expr;
    if (kind_of(expr->op) == ExprKind::Math) {
      result = expand(expr->op, operands, scaling_);
    } else if (changed) {
      result = with_operands(expr, std::move(operands));
    }
    known_.emplace(expr.address(), result);
    return result;
  }

 private:
  Scaling scaling_;
  std::unordered_map<const ExprNode*, Expr> known_;
};

}  // namespace

Expr expand(ExprOp op, const std::vector<Expr>& operands, Scaling scaling) {
  DType dtype = operands.at(0).dtype();
  DType computed = compute_type(dtype);
  std::vector<Expr> inner;
  for (const Expr& operand : operands) inner.push_back(cast(computed, operand));
  return cast(dtype, defined(op, inner, scaling));
}

Expr expand_remainder(ExprOp op, const Expr& a, const Expr& b, bool fuses) {
  const DType dtype = a.dtype(), computed = compute_type(dtype);
  const auto define = op == ExprOp::Mod ? math::define_mod : math::define_remainder;
  return cast(dtype, define(cast(computed, a), cast(computed, b), fuses));
}

Expr expand_math(const Expr& expr, Scaling scaling) { return MathExpander(scaling).expanded(expr); }

Expr softplus(const Expr& x) { return max(x, Expr::number(x.dtype(), 0)) + log1p(exp(-abs(x))); }

}  // namespace xyntra::te
