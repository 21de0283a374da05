// Matrix multiplication: MatMul, Gemm, MatMulInteger.
#include "ops/contraction/matmul.h"

#include "ops/elementwise/elementwise.h"
#include "ops/operand_shapes.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

Result<Shape> matmul_shape(const OpContext& c, Shape a, Shape b) {
  if (a.empty() || b.empty()) return c.fail("operands must have at least one dimension");
  bool vector_a = a.size() == 1, vector_b = b.size() == 1;
  if (vector_a) a.insert(a.begin(), 1);
  if (vector_b) b.push_back(1);
  const Dim &inner_a = a.back(), &inner_b = b[b.size() - 2];
  if (inner_a.is_constant() && inner_b.is_constant() && !(inner_a == inner_b)) {
    return c.fail("the inner sizes " + inner_a.to_string() + " and " + inner_b.to_string() + " differ");
  }
  XYNTRA_TRY(Shape shape, broadcast_shapes(c, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  if (!vector_a) shape.push_back(a[a.size() - 2]);
  if (!vector_b) shape.push_back(b.back());
  return shape;
}

namespace {

// x read at the batch indices and then at `matrix`, its last one or two indices.
Expr load_matrix(const Buffer& x, const Axes& batch, const Index& matrix) {
  Index index = to_index(batch);
  Shape shape;
  for (const Axis& axis : batch) shape.push_back(axis.extent);
  for (std::size_t n = 0; n < matrix.size(); ++n) {
    index.push_back(matrix[n]);
    shape.push_back(x.dim(x.rank() - matrix.size() + n));
  }
  return broadcast(x, index, shape);
}

// One number, or one per row or column: `position` of p.out's axis `axis`.
Expr parameter_at(const Buffer& parameter, const Matmul& p, const Expr& position, std::size_t axis,
                  bool row) {
  if (product(parameter.shape()).is(1) || !position.defined())
    return parameter(Index(parameter.rank(), Expr::index(0)));
  const Dim& size = parameter.dim(parameter.rank() - (row && parameter.rank() > 1 ? 2 : 1));
  Expr at = broadcast_index(size, position, p.out[axis].extent), zero = Expr::index(0);
  if (parameter.rank() == 1) return parameter(at);
  return load_matrix(parameter, p.batch, row ? Index{at, zero} : Index{zero, at});
}

Status check_parameter(const OpContext& c, std::size_t operand, const Shape& matrix, bool row) {
  if (!c.has_input(operand) || may_be_single(c.shape(operand))) return {};
  const Shape& given = c.shape(operand);
  const std::string wrong = operand_label(c, operand) + " is " + to_string(given) + ", must be one number";
  if (matrix.size() < 2) return c.fail(wrong);
  Shape one_per_sum = matrix;
  one_per_sum[matrix.size() - (row ? 1 : 2)] = 1;
  const Dim& positions = matrix[matrix.size() - (row ? 2 : 1)];
  if (given.size() == 1 ? may_be_equal(given[0], positions) : may_broadcast(given, one_per_sum)) return {};
  return c.fail(wrong + " or one per " + (row ? "row" : "column") + " of " + to_string(matrix));
}

}  // namespace

Matmul matmul_of(FormulaContext& c, const Buffer& a, const Buffer& b, const Shape& out) {
  bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  Matmul p;
  p.out = c.axes(out);
  p.k = c.axis(a.shape().back(), "k");
  std::size_t batch_rank = out.size() - (vector_a ? 0 : 1) - (vector_b ? 0 : 1);
  p.batch.assign(p.out.begin(), p.out.begin() + static_cast<std::ptrdiff_t>(batch_rank));
  if (!vector_a) p.i = p.out[batch_rank];
  if (!vector_b) p.j = p.out.back();
  p.left = load_matrix(a, p.batch, vector_a ? Index{p.k} : Index{p.i, p.k});
  p.right = load_matrix(b, p.batch, vector_b ? Index{p.k} : Index{p.k, p.j});
  return p;
}

Status check_row_parameter(const OpContext& c, std::size_t operand, const Shape& matrix) {
  return check_parameter(c, operand, matrix, true);
}

Status check_column_parameter(const OpContext& c, std::size_t operand, const Shape& matrix) {
  return check_parameter(c, operand, matrix, false);
}

Expr row_parameter(const Buffer& parameter, const Matmul& p) {
  return parameter_at(parameter, p, p.i, p.batch.size(), true);
}

Expr column_parameter(const Buffer& parameter, const Matmul& p) {
  return parameter_at(parameter, p, p.j, p.out.size() - 1, false);
}

// Integers are scaled as f64, unless there is nothing to scale.
Status gemm_with(FormulaContext& c, const te::Builder::Finish& finish) {
  Buffer a = c.in(0), b = c.in(1);
  bool transposed_a = c.flag("transA"), transposed_b = c.flag("transB");
  double alpha = c.real("alpha"), beta = c.real("beta");
  Axes out = c.axes(c.out_shape());
  Axis k = c.axis(a.dim(transposed_a ? 0 : 1), "k");
  Expr left = transposed_a ? a(k, out[0]) : a(out[0], k);
  Expr right = transposed_b ? b(out[1], k) : b(k, out[1]);
  auto scaled = [](const Expr& x, double factor) {
    if (factor == 1) return x;
    return factor * (is_float(x.dtype()) ? x : cast(DType::F64, x));
  };
  c.write_reduced(c.out(), out, Reducer::Sum, {k}, wide(left) * wide(right), [&](const Expr& sum) {
    Expr y = scaled(sum, alpha);
    if (!c.has_input(2) || beta == 0) return finish(y);
    Expr addend = scaled(wide(broadcast(c.in(2), out)), beta);
    bool real = is_float(y.dtype()) || is_float(addend.dtype());
    DType type = real && !is_float(sum.dtype()) ? DType::F64 : sum.dtype();
    return finish(cast(type, y) + cast(type, addend));
  });
  return {};
}

namespace rule {

Status matmul(InferenceContext& c) {
  XYNTRA_TRY(Shape shape, matmul_shape(c, c.shape(0), c.shape(1)));
  c.set_shape(0, std::move(shape));
  return {};
}

Status matmul_integer(InferenceContext& c) {
  XYNTRA_CHECK_OK(check_row_parameter(c, 2, c.shape(0)));
  XYNTRA_CHECK_OK(check_column_parameter(c, 3, c.shape(1)));
  return matmul(c);
}

Status gemm(InferenceContext& c) {
  if (c.rank(0) != 2 || c.rank(1) != 2) return c.fail("operands 0 (a) and 1 (b) must be matrices");
  std::size_t row = c.flag("transA") ? 1 : 0, column = c.flag("transB") ? 0 : 1;
  const Dim &inner_a = c.dim(0, 1 - row), &inner_b = c.dim(1, 1 - column);
  if (inner_a.is_constant() && inner_b.is_constant() && !(inner_a == inner_b)) {
    return c.fail("the inner sizes " + inner_a.to_string() + " and " + inner_b.to_string() + " differ");
  }
  Shape shape{c.dim(0, row), c.dim(1, column)};
  if (c.has_input(2)) {
    XYNTRA_TRY(Shape with_c, broadcast_shapes(c, shape, c.shape(2)));
    if (with_c.size() > 2 || (is_static(with_c) && is_static(shape) && with_c != shape)) {
      return c.fail("operand 2 (c) of shape " + to_string(c.shape(2)) + " does not broadcast to " +
                    to_string(shape));
    }
  }
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

// y[…, i, j] = sum(k) a[…, i, k] * b[…, k, j], accumulated in the compute type.
Status matmul(FormulaContext& c) {
  Buffer left = c.in(0), right = c.in(1);
  Matmul p = matmul_of(c, left, right, c.out_shape());
  c.write_reduced(c.out(), p.out, Reducer::Sum, {p.k}, wide(p.left) * wide(p.right));
  return {};
}

Status gemm(FormulaContext& c) {
  return gemm_with(c, [](const Expr& y) { return y; });
}

// y = sum(k) (a - a's zero point) * (b - b's zero point), in i32.
Status matmul_integer(FormulaContext& c) {
  Buffer left = c.in(0), right = c.in(1);
  Matmul p = matmul_of(c, left, right, c.out_shape());
  Expr a = cast(DType::I32, p.left), b = cast(DType::I32, p.right);
  if (c.has_input(2)) a = a - cast(DType::I32, row_parameter(c.in(2), p));
  if (c.has_input(3)) b = b - cast(DType::I32, column_parameter(c.in(3), p));
  c.write_reduced(c.out(), p.out, Reducer::Sum, {p.k}, a * b);
  return {};
}

}  // namespace formula
}  // namespace xyntra
