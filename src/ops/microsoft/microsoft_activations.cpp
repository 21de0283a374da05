// com.microsoft: activations fused with a bias.
#include "ops/elementwise/elementwise.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Buffer;
using te::Expr;

namespace rule {

Status bias_split_gelu(InferenceContext& c) {
  if (c.rank(0) == 0) return c.fail("operand 0 (x) must have at least one dimension");
  Shape shape = c.shape(0);
  if (shape.back().is_constant() && shape.back().constant() % 2 != 0) {
    return c.fail("the last dimension of operand 0 (x) must be even, not " + shape.back().to_string());
  }
  shape.back() = floor_div(shape.back(), 2);
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

Status microsoft_gelu(FormulaContext& c) { return unary(c, gelu_exact); }

Status quick_gelu(FormulaContext& c) {
  double alpha = c.real("alpha");
  return unary(c, [alpha](const Expr& x) { return x * sigmoid(alpha * x); });
}

Status bias_gelu(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr x = wide(broadcast(c.in(0), i)), bias = wide(broadcast(c.in(1), i));
  c.write(c.out(), i, gelu_exact(x + bias));
  return {};
}

Status fast_gelu(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr x = wide(c.in(0)(i));
  if (c.has_input(1)) x = x + wide(broadcast(c.in(1), i));
  c.write(c.out(), i, gelu_tanh(x));
  return {};
}

// The biased last axis is two halves; the second gates the first.
Status bias_split_gelu(FormulaContext& c) {
  Buffer x = c.in(0), bias = c.in(1);
  Axes i = c.axes(c.out_shape());
  auto half = [&](const Expr& start) {
    Expr last = start + i.back().expr();
    return wide(x(replaced(to_index(i), i.size() - 1, last))) + wide(bias(last));
  };
  Expr left = half(Expr::index(0)), right = half(Expr::size(c.out_shape().back()));
  c.write(c.out(), i, left * gelu_exact(right));
  return {};
}

}  // namespace formula
}  // namespace xyntra
