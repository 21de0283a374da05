// com.microsoft: quantized matmuls with real or quantized results.
#include "ops/contraction/matmul.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/quantization.h"
#include "ops/operand_shapes.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Reducer;

namespace rule {
namespace {

// One bias per column.
Status check_bias(const OpContext& c, std::size_t operand) {
  if (c.rank(1) < 2 && c.has_input(operand)) return c.fail("a bias needs a second operand with columns");
  return require_shape(c, operand, {c.shape(1).back()});
}

}  // namespace

Status dynamic_quantize_matmul(InferenceContext& c) {
  XYNTRA_CHECK_OK(matmul(c));
  for (std::size_t i : {2, 3}) XYNTRA_CHECK_OK(check_column_parameter(c, i, c.shape(1)));
  return check_bias(c, 4);
}

Status matmul_integer_to_float(InferenceContext& c) {
  XYNTRA_CHECK_OK(matmul(c));
  for (std::size_t i : {2, 4}) XYNTRA_CHECK_OK(check_row_parameter(c, i, c.shape(0)));
  for (std::size_t i : {3, 5}) XYNTRA_CHECK_OK(check_column_parameter(c, i, c.shape(1)));
  return check_bias(c, 6);
}

Status qgemm(InferenceContext& c) {
  if (c.rank(0) != 2 || c.rank(3) != 2) return c.fail("operands 0 (a) and 3 (b) must be matrices");
  const Dim &left = c.dim(0, c.flag("transA") ? 0 : 1), &right = c.dim(3, c.flag("transB") ? 1 : 0);
  if (!may_be_equal(left, right)) {
    return c.fail("a matmul over " + left.to_string() + " and " + right.to_string() + " elements");
  }
  Shape shape{c.dim(0, c.flag("transA") ? 1 : 0), c.dim(3, c.flag("transB") ? 0 : 1)};
  for (std::size_t i : {1, 2, 7, 8}) {
    if (c.has_input(i) && !may_be_single(c.shape(i))) return require_shape(c, i, {});
  }
  for (std::size_t i : {4, 5}) XYNTRA_CHECK_OK(check_column_parameter(c, i, shape));
  if (c.has_input(6) && !may_broadcast(c.shape(6), shape)) return require_shape(c, 6, shape);
  c.set_shape(0, std::move(shape));
  c.set_dtype(0, c.has_input(8) ? c.dtype(8) : DType::F32);
  return {};
}

}  // namespace rule

namespace formula {
namespace {

Expr column_or_absent(FormulaContext& c, std::size_t operand, const Matmul& p) {
  return c.has_input(operand) ? column_parameter(c.in(operand), p) : Expr();
}

// y = sum(k) a * b, both offset, times the scales, plus the bias of the column.
void write_real(FormulaContext& c, const Matmul& p, const Expr& a, const Expr& b, const Expr& scale,
                std::size_t bias) {
  c.write_reduced(c.out(), p.out, Reducer::Sum, {p.k}, a * b, [&](const Expr& sum) {
    Expr y = cast(scale.dtype(), sum) * scale;
    return c.has_input(bias) ? y + wide(c.in(bias)(p.j)) : y;
  });
}

}  // namespace

Status matmul_integer_to_float(FormulaContext& c) {
  Buffer left = c.in(0), right = c.in(1), left_scale = c.in(2), right_scale = c.in(3);
  Matmul p = matmul_of(c, left, right, c.out_shape());
  Expr a = offset_removed(p.left, c.has_input(4) ? row_parameter(c.in(4), p) : Expr());
  Expr b = offset_removed(p.right, column_or_absent(c, 5, p));
  Expr scale = wide(row_parameter(left_scale, p)) * wide(column_parameter(right_scale, p));
  write_real(c, p, a, b, scale, 6);
  return {};
}

// a is quantized to u8 by its own range, as DynamicQuantizeLinear does.
Status dynamic_quantize_matmul(FormulaContext& c) {
  Buffer left = c.in(0), right = c.in(1), right_scale = c.in(2);
  DynamicQuantization q = dynamic_quantization(c, left);
  Axes i = c.axes(left.shape());
  Buffer a = c.map("a_quantized", i, quantized(DType::U8, left(i) / q.scale(), q.zero_point()));
  Matmul p = matmul_of(c, a, right, c.out_shape());
  Expr offset_a = offset_removed(p.left, q.zero_point());
  Expr offset_b = offset_removed(p.right, column_or_absent(c, 3, p));
  write_real(c, p, offset_a, offset_b, q.scale() * wide(column_parameter(right_scale, p)), 4);
  return {};
}

// alpha * a' b' in i32, with c in the same units, scaled to real and, given an output scale, quantized.
Status qgemm(FormulaContext& c) {
  Buffer a = c.in(0), a_scale = c.in(1), a_zero = c.in(2), b = c.in(3), b_scale = c.in(4), b_zero = c.in(5);
  bool transposed_a = c.flag("transA"), transposed_b = c.flag("transB");
  Axes out = c.axes(c.out_shape());
  Axis k = c.axis(a.dim(transposed_a ? 0 : 1), "k");
  auto of_column = [&](const Buffer& x) {
    return x.rank() == 0 ? x() : x(broadcast_index(x.dim(0), out[1], out[1].extent));
  };
  Expr left = offset_removed(transposed_a ? a(k, out[0]) : a(out[0], k), scalar_parameter(a_zero));
  Expr right = offset_removed(transposed_b ? b(out[1], k) : b(k, out[1]), of_column(b_zero));
  double alpha = c.real("alpha");
  c.write_reduced(c.out(), out, Reducer::Sum, {k}, left * right, [&](const Expr& sum) {
    Expr total = c.has_input(6) ? sum + broadcast(c.in(6), out) : sum;
    Expr y = cast(DType::F32, total) * (alpha * scalar_parameter(a_scale) * of_column(b_scale));
    if (!c.has_input(7)) return y;
    Expr zero_point = c.has_input(8) ? scalar_parameter(c.in(8)) : Expr();
    return is_float(c.out_dtype()) ? y : quantized(c.out_dtype(), y / scalar_parameter(c.in(7)), zero_point);
  });
  return {};
}

}  // namespace formula
}  // namespace xyntra
