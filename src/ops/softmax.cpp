// Softmax and its relatives.
#include "ops/formula_context.h"

namespace xyntra::formula {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Reducer;

// y = exp(x - m) / s with m = max(k) x[k] and s = sum(k) exp(x[k] - m), along one axis.
Status softmax(FormulaContext& c) {
  Buffer x = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  DType type = compute_type(x.dtype());
  Axes i = c.axes(x.shape()), rows = without(i, axis);
  Axis k = c.axis(x.dim(axis), "k");
  Expr along = cast(type, x(replaced(to_index(i), axis, k)));
  Buffer m = c.reduce("m", rows, Reducer::Max, {k}, along);
  Buffer s = c.reduce("s", rows, Reducer::Sum, {k}, exp(along - m(rows)));
  c.write(c.out(), i, exp(cast(type, x(i)) - m(rows)) / s(rows));
  return {};
}

}  // namespace xyntra::formula
