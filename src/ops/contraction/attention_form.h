// Scaled dot-product attention as a formula, for the several ops that spell it differently.
//
//   score[b, g, r, s, t] = mask(cap(sum(d) query[b, g, r, s, d] * key[b, g, t, d]))
//   m = max(t) score;  n = sum(t) exp(score - m)
//   y[b, g, r, s, e] = sum(t) exp(score - m) / n * value[b, g, t, e]
//
// Where a query may see no key, whose scores all are -inf, m is no less than the lowest number and an n of 0 counts as 1: its
// weights are 0, and so is y.
//
// Query heads come in `groups` that share a key head, `repeats` heads each: head = g * repeats + r. With the
// two as axes of their own no index needs a division.
#pragma once

#include <functional>

#include "ops/formula_context.h"

namespace xyntra {

struct AttentionForm {
  Dim batch, groups, repeats, queries, keys, size, value_size;
  DType type = DType::F32;  // of scores and sums

  using Element = std::function<te::Expr(const te::Index&)>;
  using Change = std::function<te::Expr(te::Expr score, const te::Index& point)>;
  Element query;  // at (b, g, r, s, d), scaled
  Element key;  // at (b, g, t, d), scaled
  Element value;  // at (b, g, t, e)
  Change cap;  // at (b, g, r, s, t); may be empty
  Change mask;  // likewise
  // A score beside those of the keys that takes part in the sum and has no value (a sink); may be empty.
  std::function<te::Expr(const te::Index&)> sink;  // at (b, g, r, s)
  bool may_see_none = false;  // some queries, perhaps; not with a sink
};

struct AttentionStages {
  te::Axes rows;  // b, g, r, s
  te::Axis key, element;
  te::Buffer scores;  // (b, g, r, s, t), capped and masked
  te::Expr probability;  // at (rows, key)
};

// The stages up to the probabilities.
AttentionStages attention_scores(FormulaContext& c, const AttentionForm& form);
// The weighted sum of values, stored at `place(rows, element)`.
void attention_output(FormulaContext& c, const AttentionForm& form, const AttentionStages& stages,
                      const te::Buffer& target,
                      const std::function<te::Index(const te::Axes&, te::Expr)>& place);
// The scores without cap or mask, or with the cap alone, as a buffer of their own.
te::Buffer plain_scores(FormulaContext& c, const AttentionForm& form, bool capped);

// score -> softcap * tanh(score / softcap); nothing when softcap is zero.
AttentionForm::Change softcap_change(float softcap);

// One rotated element of rotary position embedding. `at` reads the vector, cos and sin are of element j of the
// half-size caches; elements from `rotated` on pass through.
te::Expr rotated_element(const std::function<te::Expr(te::Expr)>& at,
                         const std::function<te::Expr(te::Expr)>& cosine,
                         const std::function<te::Expr(te::Expr)>& sine, const te::Expr& element,
                         const Dim& rotated, bool interleaved);

te::Expr minus_infinity(DType dtype);

}  // namespace xyntra
