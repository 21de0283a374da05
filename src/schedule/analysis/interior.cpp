#include "schedule/analysis/interior.h"

#include <algorithm>

#include "te/index/index.h"
#include "te/walk.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::VarId;

namespace {

bool is_end(ExprOp op) {
  return op == ExprOp::Abs || op == ExprOp::Mod || op == ExprOp::Min || op == ExprOp::Max;
}

class Ends {
 public:
  Ends(const AccessAnalysis& analysis, VarId axis) : algebra_(analysis.formula()), axis_(axis) {}

  // What stands in the place of a node where its conditions hold; undefined where it is not about ends.
  Expr without(const Expr& expr) {
    if (expr.dtype() != DType::I64 || !goes_along(expr)) return {};
    switch (expr->op) {
      case ExprOp::Abs: return where({expr->operands[0]}, expr->operands[0]);
      case ExprOp::Mod: {
        const Expr &place = expr->operands[0], &size = expr->operands[1];
        return goes_along(size) ? Expr() : where({place, size - 1 - place}, place);
      }
      case ExprOp::Min:
      case ExprOp::Max: {
        const bool first = goes_along(expr->operands[0]);
        if (first == goes_along(expr->operands[1])) return {};
        const Expr &place = expr->operands[first ? 0 : 1], &end = expr->operands[first ? 1 : 0];
        return where({expr->op == ExprOp::Min ? end - place : place - end}, place);
      }
      default: return {};
    }
  }

  // For good: an end around others has conditions that are longer than theirs, and none of them would help.
  bool gave_up() const { return !linear_ || not_negative.size() > kMostConditions; }

  std::vector<Interior::Condition> not_negative;

 private:
  static constexpr std::size_t kMostConditions = 8;

  bool goes_along(const Expr& expr) const {
    return te::variables_of(expr).contains(axis_) && !te::reads_data(expr);
  }

  Expr where(std::initializer_list<Expr> conditions, const Expr& place) {
    for (const Expr& condition : conditions) {
      const te::LinearIndex sum = algebra_.linear(condition);
      linear_ = linear_ && std::ranges::all_of(sum.terms, [&](const te::LinearIndex::Term& term) {
                  return term.atom->op == ExprOp::Var || !te::variables_of(term.atom).contains(axis_);
                });
      const te::LinearIndex::Term* along = sum.find(axis_);
      linear_ = linear_ && (along == nullptr || along->coefficient.is_constant());
      const bool falls =
          along != nullptr && along->coefficient.is_constant() && along->coefficient.constant() < 0;
      not_negative.push_back({algebra_.expr(sum), falls});
    }
    return place;
  }

  const te::IndexAlgebra algebra_;
  const VarId axis_;
  bool linear_ = true;  // all of them are, along the axis
};

std::int64_t runs_in(const AccessAnalysis& analysis, const Expr& body, VarId axis) {
  std::int64_t runs = 0;
  te::for_each_node(body, [&](const ExprNode& node) {
    if (!te::is_load(node)) return;
    const auto stride = analysis.stride(node.buffer, te::index_of(node), axis);
    if (stride && stride->is(1)) ++runs;
  });
  return runs;
}

}  // namespace

std::optional<Interior> interior_of(const AccessAnalysis& analysis, const Expr& body, VarId axis) {
  bool any = false;
  te::for_each_node(
      body, [&](const ExprNode& node) { any = any || (node.dtype == DType::I64 && is_end(node.op)); });
  if (!any) return std::nullopt;
  Ends ends(analysis, axis);
  const te::IndexAlgebra algebra(analysis.formula());
  te::Rewriter between([&](const Expr& expr) {
    if (ends.gave_up()) return Expr();
    if (!te::is_load(*expr)) return ends.without(expr);
    std::vector<Expr> operands = expr->operands;
    const std::size_t places = operands.size() - te::index_of(*expr).size();
    for (std::size_t d = places; d < operands.size(); ++d) {
      if (!te::reads_data(operands[d])) operands[d] = algebra.simplified(operands[d]);
    }
    return te::with_operands(expr, std::move(operands));
  });
  const Expr made = between(body);
  if (ends.not_negative.empty() || ends.gave_up()) return std::nullopt;
  if (runs_in(analysis, made, axis) <= runs_in(analysis, body, axis)) return std::nullopt;
  return Interior{made, std::move(ends.not_negative)};
}

}  // namespace xyntra
