#include "ops/contraction/attention_form.h"

#include <limits>

#include "te/masked_rows.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

Buffer scores_of(FormulaContext& c, const AttentionForm& form, const std::string& name, const Axes& rows,
                 const Axis& key, const AttentionForm::Change& cap, const AttentionForm::Change& mask) {
  Axes points = concat(rows, {key});
  Index point = to_index(points), row = to_index(rows);
  Axis d = c.axis(form.size, "d");
  Expr left = cast(form.type, form.query(inserted(row, 4, d)));
  Expr right = cast(form.type, form.key({row[0], row[1], key, d}));
  return c.reduce(name, points, Reducer::Sum, {d}, left * right, [&](Expr score) {
    if (cap) score = cap(std::move(score), point);
    if (mask) score = mask(std::move(score), point);
    return score;
  });
}

Axes row_axes(FormulaContext& c, const AttentionForm& form) {
  return {c.axis(form.batch, "b"), c.axis(form.groups, "g"), c.axis(form.repeats, "r"),
          c.axis(form.queries, "s")};
}

}  // namespace

Expr minus_infinity(DType dtype) { return Expr::floating(dtype, -std::numeric_limits<double>::infinity()); }

AttentionForm::Change softcap_change(float softcap) {
  if (softcap == 0) return {};
  return [softcap](Expr score, const Index&) { return tanh(score / softcap) * softcap; };
}

AttentionStages attention_scores(FormulaContext& c, const AttentionForm& form) {
  AttentionStages stages;
  stages.rows = row_axes(c, form);
  stages.key = c.axis(form.keys, "t");
  stages.element = c.axis(form.value_size, "e");
  stages.scores = scores_of(c, form, "score", stages.rows, stages.key, form.cap, form.mask);
  Index row = to_index(stages.rows);
  Expr score = stages.scores(inserted(row, 4, stages.key));
  Buffer highest = c.reduce("m", stages.rows, Reducer::Max, {stages.key}, score, [&](Expr m) {
    if (form.sink) return max(m, form.sink(row));
    return form.may_see_none ? te::at_least_lowest(m) : m;
  });
  Buffer total =
      c.reduce("n", stages.rows, Reducer::Sum, {stages.key}, exp(score - highest(row)), [&](Expr n) {
        if (form.sink) return n + exp(form.sink(row) - highest(row));
        return form.may_see_none ? te::one_for_zero(n) : n;
      });
  stages.probability = exp(score - highest(row)) / total(row);
  return stages;
}

void attention_output(FormulaContext& c, const AttentionForm& form, const AttentionStages& stages,
                      const Buffer& target, const std::function<Index(const Axes&, Expr)>& place) {
  Index row = to_index(stages.rows);
  Buffer weights = c.map("p", concat(stages.rows, {stages.key}), stages.probability);
  Expr value = cast(form.type, form.value({row[0], row[1], stages.key, stages.element}));
  c.write_reduced_at(target, concat(stages.rows, {stages.element}), place(stages.rows, stages.element),
                     Reducer::Sum, {stages.key}, weights(inserted(row, 4, stages.key)) * value);
}

Buffer plain_scores(FormulaContext& c, const AttentionForm& form, bool capped) {
  Axes rows = row_axes(c, form);
  return scores_of(c, form, capped ? "capped" : "plain", rows, c.axis(form.keys, "t"),
                   capped ? form.cap : AttentionForm::Change(), {});
}

Expr rotated_element(const std::function<Expr(Expr)>& at, const std::function<Expr(Expr)>& cosine,
                     const std::function<Expr(Expr)>& sine, const Expr& element, const Dim& rotated,
                     bool interleaved) {
  Expr half = Expr::size(floor_div(rotated, Dim(2)));
  // The pair (real, imaginary) the element belongs to, and which of the two it is.
  Expr pair = interleaved ? te::floor_div(element, 2) : te::mod(element, half);
  Expr is_real = interleaved ? equal(mod(element, 2), 0) : element < half;
  Expr partner = interleaved ? select(is_real, element + 1, element - 1)
                             : select(is_real, element + half, element - half);
  Expr own = at(element) * cosine(pair), other = at(partner) * sine(pair);
  return select(element < Expr::size(rotated), select(is_real, own - other, own + other), at(element));
}

}  // namespace xyntra
