// Softmax and its relatives.
#include "ops/reduction/softmax.h"

#include "ops/elementwise/elementwise.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

SoftmaxRows softmax_rows(FormulaContext& c, const Buffer& x, std::size_t axis) {
  SoftmaxRows r;
  r.out = c.axes(x.shape());
  r.rows = without(r.out, axis);
  Axis k = c.axis(x.dim(axis), "k");
  Expr along = wide(x(replaced(to_index(r.out), axis, k)));
  r.largest = c.reduce("m", r.rows, Reducer::Max, {k}, along);
  r.sum = c.reduce("s", r.rows, Reducer::Sum, {k}, exp(along - r.largest(r.rows)));
  return r;
}

namespace formula {

// y = exp(x - m) / s with m = max(k) x[k] and s = sum(k) exp(x[k] - m), along one axis.
Status softmax(FormulaContext& c) {
  Buffer x = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  SoftmaxRows r = softmax_rows(c, x, axis);
  c.write(c.out(), r.out, exp(wide(x(r.out)) - r.largest(r.rows)) / r.sum(r.rows));
  return {};
}

Status log_softmax(FormulaContext& c) {
  Buffer x = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  SoftmaxRows r = softmax_rows(c, x, axis);
  c.write(c.out(), r.out, wide(x(r.out)) - r.largest(r.rows) - log(r.sum(r.rows)));
  return {};
}

// 1 at the first maximum along the axis, 0 elsewhere.
Status hardmax(FormulaContext& c) {
  Buffer x = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  Axes out = c.axes(x.shape()), rows = without(out, axis);
  Axis k = c.axis(x.dim(axis), "k");
  Expr along = wide(x(replaced(to_index(out), axis, k)));
  Buffer m = c.reduce("m", rows, Reducer::Max, {k}, along);
  Expr found = te::equal(along, m(rows)) | is_nan(along);
  Buffer first = c.reduce("first", rows, Reducer::Min, {k}, select(found, k, Expr::size(x.dim(axis))));
  c.write(c.out(), out, te::equal(out[axis].expr(), first(rows)));
  return {};
}

}  // namespace formula
}  // namespace xyntra
