// Determinant and inverse by Gaussian elimination with partial pivoting, as a scan over the columns.
#include "ops/elementwise/elementwise.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace rule {

namespace {

Status check_square(const InferenceContext& c) {
  if (c.rank(0) < 2) return c.fail("operand 0 (x) must have at least two dimensions");
  const Dim &rows = c.dim(0, c.rank(0) - 2), &columns = c.shape(0).back();
  if (rows.is_constant() && columns.is_constant() && !(rows == columns)) {
    return c.fail("operand 0 (x) must be square, not " + rows.to_string() + " by " + columns.to_string());
  }
  return {};
}

}  // namespace

Status determinant(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_square(c));
  c.set_shape(0, Shape(c.shape(0).begin(), c.shape(0).end() - 2));
  return {};
}

Status inverse(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_square(c));
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {
namespace {

Expr at(const Buffer& matrix, const Axes& batch, const Expr& row, const Expr& column) {
  Index index = to_index(batch);
  index.push_back(row);
  index.push_back(column);
  return matrix(index);
}

// The row at or below t with the largest magnitude in column t; NaN counts as largest.
Buffer pivot_row(FormulaContext& c, const Buffer& a, const Axes& batch, const Axis& t, const Dim& n) {
  Axis r = c.axis(n, "r");
  Expr magnitude = abs(at(a, batch, r, t));
  Expr eligible = r.expr() >= t.expr();
  Buffer largest = c.reduce("largest", batch, Reducer::Max, {r},
                            select(eligible, magnitude, Expr::number(magnitude.dtype(), -1)));
  Expr found = eligible & (te::equal(magnitude, largest(batch)) | is_nan(magnitude));
  return c.reduce("pivot", batch, Reducer::Min, {r}, select(found, r, Expr::size(n - 1)));
}

// Row r after rows t and `pivot` have changed places.
Expr swapped_row(const Expr& r, const Expr& t, const Expr& pivot) {
  return select(te::equal(r, t), pivot, select(te::equal(r, pivot), t, r));
}

struct Elimination {
  Axes batch;
  Axis row, column;
  Buffer a;
};

Elimination begin_elimination(FormulaContext& c) {
  Buffer x = c.in(0);
  Elimination e;
  Axes i = c.axes(x.shape());
  e.batch.assign(i.begin(), i.end() - 2);
  e.row = i[i.size() - 2];
  e.column = i.back();
  e.a = c.carry("a", compute_type(x.dtype()), i, wide(x(i)));
  return e;
}

}  // namespace

// Each step multiplies the determinant by the pivot and clears the column below it.
Status determinant(FormulaContext& c) {
  Elimination e = begin_elimination(c);
  DType type = e.a.dtype();
  const Dim n = e.column.extent;
  Buffer d = c.carry("d", type, e.batch, Expr::number(type, 1));
  Axis t = c.begin_scan(n, {e.a, d});
  Buffer pivot = pivot_row(c, e.a, e.batch, t, n);
  Expr p = pivot(e.batch), source = swapped_row(e.row, t, p);
  Expr diagonal = at(e.a, e.batch, p, t);
  Expr factor = select(te::equal(diagonal, 0), Expr::number(type, 0), at(e.a, e.batch, source, t) / diagonal);
  Expr value = at(e.a, e.batch, source, e.column);
  Expr cleared = value - factor * at(e.a, e.batch, p, e.column);
  Axes matrix = concat(e.batch, {e.row, e.column});
  c.next(e.a, matrix, select(e.row.expr() > t.expr(), cleared, value));
  c.next(d, e.batch, d(e.batch) * select(te::equal(p, t), diagonal, -diagonal));
  c.end_scan();
  c.write(c.out(), e.batch, d(e.batch));
  return {};
}

// Gauss-Jordan: the same operations that make a the identity make the identity a's inverse.
Status inverse(FormulaContext& c) {
  Elimination e = begin_elimination(c);
  DType type = e.a.dtype();
  const Dim n = e.column.extent;
  Axes matrix = concat(e.batch, {e.row, e.column});
  Expr one = Expr::number(type, 1), zero = Expr::number(type, 0);
  Buffer b = c.carry("b", type, matrix, select(te::equal(e.row.expr(), e.column), one, zero));
  Axis t = c.begin_scan(n, {e.a, b});
  Buffer pivot = pivot_row(c, e.a, e.batch, t, n);
  Expr p = pivot(e.batch), source = swapped_row(e.row, t, p);
  Expr diagonal = at(e.a, e.batch, p, t), factor = at(e.a, e.batch, source, t);
  for (const Buffer& state : {e.a, b}) {
    Expr pivot_value = at(state, e.batch, p, e.column) / diagonal;
    Expr value = at(state, e.batch, source, e.column) - factor * pivot_value;
    c.next(state, matrix, select(te::equal(e.row.expr(), t), pivot_value, value));
  }
  c.end_scan();
  c.write(c.out(), matrix, b(matrix));
  return {};
}

}  // namespace formula
}  // namespace xyntra
