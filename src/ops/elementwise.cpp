// Elementwise arithmetic: one expression per op.
#include "ops/formula_context.h"

namespace xyntra::formula {

using te::Axes;
using te::Expr;

namespace {

// out[i] = operation(a[i], b[i]) with both broadcast.
template <class Operation>
Status binary(FormulaContext& c, Operation operation) {
  Axes i = c.axes(c.out_shape());
  c.write(c.out(), i, operation(broadcast(c.in(0), i), broadcast(c.in(1), i)));
  return {};
}

}  // namespace

#define BINARY(name, expression)                                 \
  Status name(FormulaContext& c) {                               \
    return binary(c, [](Expr a, Expr b) { return expression; }); \
  }

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a* b)
BINARY(div, a / b)

}  // namespace xyntra::formula
