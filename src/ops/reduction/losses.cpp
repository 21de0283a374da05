// Losses over classes: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include "ops/elementwise/elementwise.h"
#include "ops/reduction/softmax.h"

namespace xyntra {

using te::Axes;
using te::Buffer;
using te::Expr;
using te::Reducer;

namespace rule {

Status class_loss(InferenceContext& c) {
  if (c.rank(0) < 2) return c.fail("operand 0 must have at least two dimensions, batch and class");
  if (c.rank(1) != c.rank(0) - 1) return c.fail("operand 1 must have one dimension less than operand 0");
  const std::string& reduction = c.text("reduction");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return c.fail("reduction must be none, sum or mean, not '" + reduction + "'");
  }
  if (c.has_input(2) && c.rank(2) != 1) return c.fail("operand 2 must be one weight per class");
  c.set_shape(0, reduction == "none" ? c.shape(1) : Shape{});
  if (c.wants_output(1)) c.set_shape(1, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {
namespace {

// -w[t] * log_probability[n, t, d…] at the target t = target[n, d…], reduced over all n, d…; the mean divides by
// the sum of the weights that were used. Targets equal to ignore_index weigh nothing.
Status class_loss(FormulaContext& c, const Buffer& log_probability) {
  Buffer target = c.in(1);
  DType type = compute_type(c.dtype(0));
  Axes point = c.axes(target.shape());
  Expr t = target(point), zero = Expr::number(type, 0);
  Expr label = cast(DType::I64, t);
  Expr weight = c.has_input(2) ? wide(c.in(2)(label)) : Expr::number(type, 1);
  Expr loss = -wide(log_probability(inserted(to_index(point), 1, label))) * weight;
  if (c.has_attribute("ignore_index")) {
    Expr ignored = te::equal(label, Expr::index(c.integer("ignore_index")));
    weight = select(ignored, zero, weight);
    loss = select(ignored, zero, loss);
  }
  const std::string& reduction = c.text("reduction");
  if (reduction == "none") {
    c.write(c.out(), point, loss);
  } else if (reduction == "sum") {
    c.write_reduced(c.out(), {}, Reducer::Sum, point, loss);
  } else {
    Buffer total = c.reduce("total", {}, Reducer::Sum, point, weight);
    c.write_reduced(c.out(), {}, Reducer::Sum, point, loss, [&](const Expr& sum) { return sum / total(); });
  }
  return {};
}

}  // namespace

Status negative_log_likelihood(FormulaContext& c) { return class_loss(c, c.in(0)); }

Status softmax_cross_entropy(FormulaContext& c) {
  Buffer x = c.in(0);
  SoftmaxRows r = softmax_rows(c, x, 1);
  Expr value = wide(x(r.out)) - r.largest(r.rows) - log(r.sum(r.rows));
  Buffer log_probability = c.map("log_probability", r.out, value);
  if (c.wants_output(1)) c.write(c.out(1), r.out, log_probability(r.out));
  return class_loss(c, log_probability);
}

}  // namespace formula
}  // namespace xyntra
