// Dropout: the identity, or in training mode a random mask.
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/random.h"
#include "te/math/random.h"

namespace xyntra {

using te::Axes;
using te::Expr;
using te::Index;

namespace formula {

// y = mask * x / (1 - ratio), where mask is true with probability 1 - ratio; always true outside training.
Status dropout(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr x = wide(c.in(0)(i)), kept = Expr::boolean(true), y = x;
  auto scalar = [&c](std::size_t n) { return c.in(n)(Index(c.in(n).rank(), Expr::index(0))); };
  if (c.has_input(2)) {
    Expr ratio = c.has_input(1) ? cast(x.dtype(), scalar(1)) : Expr::number(x.dtype(), 0.5);
    Expr training = scalar(2);
    Expr u = te::random_uniform(x.dtype(), node_key(c), te::linear_index(i));
    kept = (!training) | (u >= ratio);
    y = select(training, select(kept, x / (1 - ratio), Expr::number(x.dtype(), 0)), x);
  }
  c.write(c.out(), i, y);
  if (c.wants_output(1)) c.write(c.out(1), i, kept);
  return {};
}

}  // namespace formula
}  // namespace xyntra
