// What attention computes, at given queries, keys and columns: for lowerings that go over them in their own order.
#pragma once

#include <initializer_list>
#include <utility>

#include "lower/lowering.h"
#include "schedule/prepare/attention_parts.h"
#include "te/masked_rows.h"

namespace xyntra {

inline te::Expr f32_at(kir::BufferId buffer, std::vector<te::Expr> index) {
  return te::Expr::load(buffer, DType::F32, std::move(index));
}

class AttentionTerms {
 public:
  AttentionTerms(Lowering& lowering, const AttentionParts& parts) : lowering_(lowering), parts_(parts) {}

  void bind(te::VarId loop, const te::Expr& at) { bound_[loop.index] = at; }
  const te::Substitution& bound() const { return bound_; }

  // An expression of it at some of its loops; undefined where it must look at its indices first.
  te::Expr told(const te::Expr& expr, std::initializer_list<std::pair<te::VarId, te::Expr>> loops,
                const te::Expr& accumulator = {}) const;
  // The result of a query in a column, of its weighted sum and its divisor; undefined as above.
  kir::Stmt stored(const te::Expr& query, const te::Expr& column, const te::Expr& sum,
                   const te::Expr& divisor) const;
  te::Expr larger(const te::Expr& a, const te::Expr& b) const { return combined(parts_.maximum, a, b); }
  // A weight, or a factor that corrects weighted sums: where it is NaN it counts for nothing, if the model says so. Sums of
  // weights find it all the same.
  te::Expr counted(const te::Expr& weight) const {
    return parts_.guarded ? te::zero_for_nan(weight) : weight;
  }
  static te::Expr lowest();

 private:
  Lowering& lowering_;
  const AttentionParts& parts_;
  te::Substitution bound_;
};

}  // namespace xyntra
