// com.microsoft: normalisations of a sum (residual connections, embeddings).
#include "ops/elementwise/elementwise.h"
#include "ops/reduction/normalization.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace rule {

// y, mean, inverse deviation, sum
Status skip_normalization(InferenceContext& c) {
  if (c.rank(0) == 0) return c.fail("operand 0 (x) must have at least one dimension");
  XYNTRA_TRY(Shape shape, broadcast_shapes(c, c.shape(0), c.shape(1)));
  Shape statistics = shape;
  statistics.back() = 1;
  for (std::size_t output = 0; output < c.output_count(); ++output) {
    c.set_shape(output, output == 1 || output == 2 ? statistics : shape);
  }
  return {};
}

Status embed_layer_normalization(InferenceContext& c) {
  if (c.rank(0) != 2 || c.rank(2) != 2)
    return c.fail("operands 0 (input_ids) and 2 (word_embedding) have rank 2");
  Shape shape{c.dim(0, 0), c.dim(0, 1), c.dim(2, 1)};
  c.set_shape(0, shape);
  if (c.wants_output(1)) c.set_shape(1, {c.dim(0, 0)});
  if (c.wants_output(2)) c.set_shape(2, shape);
  return {};
}

}  // namespace rule

namespace formula {
namespace {

// y = (s - mean) / √(variance + epsilon) * gamma + beta over the last axis of s, or the root-mean-square form.
void normalize_sum(FormulaContext& c, const Buffer& s, const Buffer& gamma, const Buffer& beta,
                   bool centred) {
  TrailingRows t = trailing_rows(c, s.shape(), s.rank() - 1);
  double epsilon = c.real("epsilon");
  Expr along = s(t.along), value = s(t.point), inverse;
  if (centred) {
    Moments m = moments(c, t.rows, t.reduced, along);
    inverse = inverse_deviation(m.variance(t.rows), epsilon);
    value = value - m.mean(t.rows);
  } else {
    Buffer square = c.reduce(
        "square", t.rows, Reducer::Sum, t.reduced, along * along,
        [&](const Expr& total) { return total / cast(total.dtype(), Expr::size(t.reduced[0].extent)); });
    inverse = inverse_deviation(square(t.rows), epsilon);
  }
  Expr y = value * inverse * wide(gamma(t.point.back()));
  if (beta.defined()) y = y + wide(beta(t.point.back()));
  c.write(c.out(), t.point, y);
}

Status skip_normalization(FormulaContext& c, std::size_t beta_operand, std::size_t bias_operand,
                          bool centred) {
  Buffer x = c.in(0), skip = c.in(1), gamma = c.in(2);
  if (c.wants_output(1) || c.wants_output(2)) {
    return c.unsupported(
        "outputs 1 (mean) and 2 (inverse deviation) are not computed, by ONNX Runtime neither");
  }
  Axes i = c.axes(c.out_shape());
  Expr sum = wide(broadcast(x, i)) + wide(broadcast(skip, i));
  if (c.has_input(bias_operand)) sum = sum + wide(broadcast(c.in(bias_operand), i));
  Buffer s = c.map("s", i, sum);
  if (c.wants_output(3)) c.write(c.out(3), i, s(i));
  Buffer beta = beta_operand != 0 && c.has_input(beta_operand) ? c.in(beta_operand) : Buffer();
  normalize_sum(c, s, gamma, beta, centred);
  return {};
}

}  // namespace

Status skip_layer_normalization(FormulaContext& c) { return skip_normalization(c, 3, 4, true); }
Status skip_simplified_layer_normalization(FormulaContext& c) { return skip_normalization(c, 0, 3, false); }

// The sum of a word's, a position's and a segment's embedding, normalised.
Status embed_layer_normalization(FormulaContext& c) {
  Buffer ids = c.in(0), word = c.in(2), position = c.in(3), gamma = c.in(5), beta = c.in(6);
  Axes i = c.axes(c.out_shape());
  auto id = [&](std::size_t operand) { return cast(DType::I64, broadcast(c.in(operand), Axes{i[0], i[1]})); };
  Expr place = c.has_input(8) ? id(8) : i[1].expr();
  Expr sum = wide(word(cast(DType::I64, ids(i[0], i[1])), i[2])) + wide(position(place, i[2]));
  if (c.has_input(1) && c.has_input(4)) sum = sum + wide(c.in(4)(id(1), i[2]));
  Buffer s = c.map("s", i, sum);
  if (c.wants_output(2)) c.write(c.out(2), i, s(i));
  if (c.wants_output(1)) {
    Axis batch = c.axis(ids.dim(0), "b"), k = c.axis(ids.dim(1), "k");
    Expr counted = c.has_input(7) ? c.in(7)(batch, k) : Expr::number(ids.dtype(), 0);
    c.write_reduced(c.out(1), {batch}, Reducer::Sum, {k}, counted);
  }
  normalize_sum(c, s, gamma, beta, true);
  return {};
}

}  // namespace formula
}  // namespace xyntra
