#include "lower/gpu/attention/attention_terms.h"

#include <limits>

namespace xyntra {

using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

Expr AttentionTerms::told(const Expr& expr, std::initializer_list<std::pair<VarId, Expr>> loops,
                          const Expr& accumulator) const {
  Substitution bound = bound_;
  for (const auto& [loop, at] : loops) bound[loop.index] = at;
  Lowering::Body body = lowering_.body(expr, bound, accumulator);
  return body.checks.empty() ? body.value : Expr();
}

Stmt AttentionTerms::stored(const Expr& query, const Expr& column, const Expr& sum,
                            const Expr& divisor) const {
  Substitution bound = bound_;
  if (parts_.query.valid()) bound[parts_.query.index] = query;
  bound[parts_.column.index] = column;
  const te::BufferId of_sums = parts_.sum;
  Lowering::Body value = lowering_.body(
      parts_.result, bound, sum,
      [of_sums, divisor](const te::ExprNode& node) { return node.buffer == of_sums ? divisor : Expr(); });
  if (!value.checks.empty()) return {};
  te::Stage last;
  last.target = parts_.target;
  last.store = parts_.store;
  return lowering_.store(last, bound, std::move(value));
}

Expr AttentionTerms::lowest() { return Expr::floating(DType::F32, -std::numeric_limits<double>::infinity()); }

}  // namespace xyntra
