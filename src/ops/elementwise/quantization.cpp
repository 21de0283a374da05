// Linear quantization: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, QLinearMatMul.
#include "ops/elementwise/quantization.h"

#include "ops/contraction/matmul.h"
#include "ops/elementwise/elementwise.h"
#include "ops/operand_shapes.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Buffer;
using te::CastMode;
using te::Expr;
using te::Index;
using te::Reducer;

Expr offset_removed(const Expr& q, const Expr& zero_point) {
  DType type = is_float(q.dtype()) ? DType::F32 : DType::I32;
  Expr value = cast(type, q);
  return zero_point.defined() ? value - cast(type, zero_point) : value;
}

Expr dequantized(DType type, const Expr& q, const Expr& scale, const Expr& zero_point) {
  return cast(type, offset_removed(q, zero_point)) * cast(type, scale);
}

Expr quantized(DType to, const Expr& ratio, const Expr& zero_point, bool saturate) {
  Expr value = is_float(to) ? ratio : round(ratio);
  if (zero_point.defined()) value = value + cast(value.dtype(), zero_point);
  CastMode mode;
  mode.saturate = saturate;
  return cast(to, value, mode);
}

namespace {

// One scale for the whole tensor, also by what `axis` says of an open size.
bool may_be_only_single(const OpContext& c, const Shape& scale) {
  if (scale.empty() || (scale.size() == 1 && scale[0].is(1))) return true;
  return scale.size() == 1 && !scale[0].is_constant() && c.integer("block_size") == 0 &&
         !c.normalized_axis(c.integer("axis"), c.rank(0));
}

}  // namespace

Result<Granularity> granularity(const OpContext& c, std::size_t scale_operand) {
  Granularity g;
  const Shape& scale = c.shape(scale_operand);
  if (may_be_only_single(c, scale)) return g;
  XYNTRA_TRY(g.axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  g.single = false;
  g.extent = c.dim(0, g.axis);
  g.block_size = c.integer("block_size");
  std::string operand = "operand " + std::to_string(scale_operand) + " (scale)";
  if (scale.size() == 1 && g.block_size == 0) {
    if (!may_be_equal(g.extent, scale[0])) {
      return c.fail(operand + " has " + scale[0].to_string() + " elements for an axis of size " +
                    g.extent.to_string());
    }
    return g;
  }
  if (scale.size() != c.rank(0)) {
    return c.fail(operand + " must be one number, one per element of the axis, or of operand 0's rank");
  }
  if (g.block_size <= 0) return c.fail("blocked scales need a positive block_size");
  const Dim blocks = ceil_div(g.extent, g.block_size);
  if (!may_be_equal(blocks, scale[g.axis])) {
    return c.fail(operand + " has " + scale[g.axis].to_string() + " blocks, " + blocks.to_string() +
                  " are needed");
  }
  return g;
}

Expr parameter_at(const Buffer& parameter, const Index& point, const Granularity& g) {
  if (g.single || parameter.rank() == 0) return scalar_parameter(parameter);
  if (g.block_size == 0) return parameter(broadcast_index(parameter.dim(0), point[g.axis], g.extent));
  return parameter(replaced(point, g.axis, floor_div(point[g.axis], Expr::index(g.block_size))));
}

Expr scalar_parameter(const Buffer& parameter) { return parameter(Index(parameter.rank(), Expr::index(0))); }

DynamicQuantization dynamic_quantization(FormulaContext& c, const Buffer& x) {
  // Of rows first, which may be found at the same time.
  Axes rows = c.axes(x.shape()), k;
  if (!rows.empty()) k.push_back(rows.back()), rows.pop_back();
  const Axes all = concat(rows, k);
  Buffer lows = c.reduce("lows", rows, Reducer::Min, k, x(all));
  Buffer highs = c.reduce("highs", rows, Reducer::Max, k, x(all));
  Axes r = c.axes(lows.shape());
  Buffer low = c.reduce("low", {}, Reducer::Min, r, lows(r), [](const Expr& least) { return min(least, 0); });
  Buffer high =
      c.reduce("high", {}, Reducer::Max, r, highs(r), [](const Expr& most) { return max(most, 0); });
  Expr one = Expr::number(DType::F32, 1);
  DynamicQuantization q;
  q.scale = c.map("scale", {}, select(te::equal(high(), low()), one, (high() - low()) / 255));
  q.zero_point = c.map("zero_point", {}, quantized(DType::U8, -low() / q.scale(), {}));
  return q;
}

namespace {

Expr optional_parameter(FormulaContext& c, std::size_t operand, const Index& point, const Granularity& g) {
  return c.has_input(operand) ? parameter_at(c.in(operand), point, g) : Expr();
}

// Around zero nothing is subtracted: as if no zero point were given.
bool is_known_zero(const FormulaContext& c, std::size_t operand) {
  const Tensor* known = c.has_input(operand) ? c.constant(operand) : nullptr;
  if (known == nullptr || is_float(known->dtype())) return false;
  for (std::int64_t i = 0; i < known->count(); ++i) {
    if (known->element_as_i64(i) != 0) return false;
  }
  return true;
}

}  // namespace

namespace rule {

Status quantize_linear(InferenceContext& c) {
  XYNTRA_CHECK_OK(granularity(c, 1));
  DType to = c.has_input(2) ? c.dtype(2) : DType::U8;
  if (c.integer("output_dtype") != 0) {
    XYNTRA_TRY(DType wanted, dtype_attribute(c, "output_dtype"));
    if (c.has_input(2) && wanted != to) {
      return c.fail("output_dtype is " + std::string(name_of(wanted)) + " but operand 2 (y_zero_point) is " +
                    std::string(name_of(to)));
    }
    to = wanted;
  }
  c.set_dtype(0, to);
  c.set_shape(0, c.shape(0));
  return {};
}

Status dequantize_linear(InferenceContext& c) {
  XYNTRA_CHECK_OK(granularity(c, 1));
  DType to = c.dtype(1);
  if (c.integer("output_dtype") != 0) {
    XYNTRA_TRY(to, dtype_attribute(c, "output_dtype"));
  }
  c.set_dtype(0, to);
  c.set_shape(0, c.shape(0));
  return {};
}

Status dynamic_quantize_linear(InferenceContext& c) {
  c.set_shape(0, c.shape(0));
  for (std::size_t output = 1; output < c.output_count(); ++output) c.set_shape(output, {});
  return {};
}

Status qlinear_matmul(InferenceContext& c) {
  XYNTRA_TRY(Shape shape, matmul_shape(c, c.shape(0), c.shape(3)));
  for (std::size_t i : {1, 2}) XYNTRA_CHECK_OK(check_row_parameter(c, i, c.shape(0)));
  for (std::size_t i : {4, 5}) XYNTRA_CHECK_OK(check_column_parameter(c, i, c.shape(3)));
  Shape rows = shape;
  if (c.rank(3) == 1) rows.push_back(1);
  if (c.rank(0) == 1) rows.clear();
  for (std::size_t i : {6, 7}) XYNTRA_CHECK_OK(check_row_parameter(c, i, rows));
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

// y = saturate(round(x / scale) + zero point). The division has the precision of `precision`, else of the scale.
Status quantize_linear(FormulaContext& c) {
  Buffer x = c.in(0), scale = c.in(1);
  XYNTRA_TRY(Granularity g, granularity(c, 1));
  DType type = is_float(scale.dtype()) && bits_of(scale.dtype()) >= 16 ? scale.dtype() : DType::F32;
  if (c.integer("precision") != 0) {
    XYNTRA_TRY(type, dtype_attribute(c, "precision"));
  }
  Axes i = c.axes(x.shape());
  Index point = to_index(i);
  Expr ratio = cast(type, x(i)) / cast(type, parameter_at(scale, point, g));
  Expr zero_point = optional_parameter(c, 2, point, g);
  c.write(c.out(), i, quantized(c.out_dtype(), wide(ratio), zero_point, c.flag("saturate")));
  return {};
}

Status dequantize_linear(FormulaContext& c) {
  Buffer x = c.in(0), scale = c.in(1);
  XYNTRA_TRY(Granularity g, granularity(c, 1));
  Axes i = c.axes(x.shape());
  Index point = to_index(i);
  Expr zero_point = is_known_zero(c, 2) ? Expr() : optional_parameter(c, 2, point, g);
  DType type = compute_type(c.out_dtype());
  c.write(c.out(), i, dequantized(type, x(i), parameter_at(scale, point, g), zero_point));
  return {};
}

Status dynamic_quantize_linear(FormulaContext& c) {
  Buffer x = c.in(0);
  DynamicQuantization q = dynamic_quantization(c, x);
  Axes i = c.axes(x.shape());
  c.write(c.out(), i, quantized(DType::U8, x(i) / q.scale(), q.zero_point()));
  if (c.wants_output(1)) c.write(c.out(1), {}, q.scale());
  if (c.wants_output(2)) c.write(c.out(2), {}, q.zero_point());
  return {};
}

// y = saturate(round(sum(k) a * b * (a_scale * b_scale / y_scale)) + zero point), with a and b offset.
Status qlinear_matmul(FormulaContext& c) {
  std::vector<Buffer> in;
  for (std::size_t n = 0; n < 8; ++n) in.push_back(c.in(n));
  Matmul p = matmul_of(c, in[0], in[3], c.out_shape());
  Expr a = offset_removed(p.left, row_parameter(in[2], p));
  Expr b = offset_removed(p.right, column_parameter(in[5], p));
  DType type = a.dtype() == DType::F32 || b.dtype() == DType::F32 ? DType::F32 : DType::I32;
  Expr factor =
      wide(row_parameter(in[1], p)) * wide(column_parameter(in[4], p)) / wide(row_parameter(in[6], p));
  c.write_reduced(c.out(), p.out, Reducer::Sum, {p.k}, cast(type, a) * cast(type, b), [&](const Expr& sum) {
    return quantized(c.out_dtype(), cast(factor.dtype(), sum) * factor, row_parameter(in[7], p));
  });
  return {};
}

}  // namespace formula
}  // namespace xyntra
