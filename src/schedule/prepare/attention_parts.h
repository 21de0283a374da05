// Attention as five stages: scores, their maximum, exponents, their sum, the weighted sum.
//
//   p[i, j] = f(sum(d) q[i, d] * k[j, d]);  m[i] = max(j) p[i, j];  e[i, j] = exp(p[i, j] - m[i])
//   s[i] = sum(j) e[i, j];  y[i, c] = g(sum(j) e[i, j] * v[j, c], s[i])
#pragma once

#include <optional>
#include <vector>

#include "te/formula.h"

namespace xyntra {

// All expressions are told by the loops of the first stage, and the column.
struct AttentionParts {
  te::VarId query, key, depth, column;
  std::vector<te::VarId> rows;  // loops that all stages share, but the queries
  te::Expr of_queries, of_keys;  // factors of the scores
  te::Expr score;  // with the accumulator for the sum of their products
  te::Reducer maximum = te::Reducer::Max;  // of the scores: or Largest
  te::Expr value;
  std::optional<DType> rounded;  // what weights are rounded to before they are multiplied
  bool guarded = false;  // whether weights count for nothing where they are NaN
  te::Expr divisor;  // with the accumulator for the sum of exponents
  te::Expr result;  // with the accumulator for the weighted sum, and loads of `sum`
  te::BufferId weights;  // exponents
  te::BufferId sum;
  te::BufferId target;
  std::vector<te::Expr> store;
};

// What a lowering takes beside the plain form.
struct AttentionKinds {
  bool rounded_weights = false;
  bool guarded_weights = false;
  bool one_query = false;  // `query` is not valid then
};
// Nothing where the stages are of another form.
std::optional<AttentionParts> attention_parts(const te::Formula& formula, const AttentionKinds& kinds = {});

// What is made of each score by itself, in a stage after that of the products: in this one, at its end.
te::Formula with_scores_finished(const te::Formula& formula);

// By how much a score moves at most when the sum of its products moves by one; nothing where it cannot be told.
std::optional<double> steepness(const te::Expr& score);

// Where division comes last, weights of at most one, times large values, may add up to infinity though their mean would not.
// Less by so many powers of two they cannot; it goes by the division.
int powers_for_keys(const Dim& keys);

// All weights less by as much: a formula whose stages make them in that buffer.
te::Formula with_less_weights(const te::Formula& formula, te::BufferId weights, const Dim& keys);

}  // namespace xyntra
