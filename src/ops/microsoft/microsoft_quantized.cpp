// com.microsoft: elementwise ops, reductions and pooling between quantized tensors. Each one is the real op
// between a dequantization and a quantization.
#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/quantization.h"
#include "ops/operand_shapes.h"
#include "ops/reduction/softmax.h"
#include "ops/rules.h"
#include "ops/window/window.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

Expr scalar_or_absent(FormulaContext& c, std::size_t operand) {
  return c.has_input(operand) ? scalar_parameter(c.in(operand)) : Expr();
}

// Operand n, with scale n + 1 and zero point n + 2, as a real number.
Expr real_at(FormulaContext& c, std::size_t n, const Expr& q) {
  return dequantized(DType::F32, q, scalar_parameter(c.in(n + 1)), scalar_or_absent(c, n + 2));
}

// Quantized for output 0 with the scale and zero point at `n`.
Expr requantized(FormulaContext& c, const Expr& real, std::size_t n) {
  return quantized(c.out_dtype(), real / scalar_parameter(c.in(n)), scalar_or_absent(c, n + 1));
}

std::size_t channel_axis(const OpContext& c) { return c.flag("channels_last") ? c.rank(0) - 1 : 1; }

// x's list (sizes or indices) without batch and channel.
template <class List>
List spatial_part(const OpContext& c, List list) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(channel_axis(c)));
  list.erase(list.begin());
  return list;
}

Result<Window> quantized_pooling_window(const OpContext& c) {
  if (c.rank(0) < 3) return c.fail("operand 0 (x) must have batch, channel and spatial dimensions");
  return window_of(c, spatial_part(c, c.shape(0)), shape_of(c.integers("kernel_shape")));
}

}  // namespace

namespace rule {

Status qlinear_binary(InferenceContext& c) {
  XYNTRA_TRY(Shape shape, broadcast_shapes(c, c.shape(0), c.shape(3)));
  c.set_shape(0, std::move(shape));
  return {};
}

Status qlinear_where(InferenceContext& c) {
  XYNTRA_TRY(Shape values, broadcast_shapes(c, c.shape(1), c.shape(4)));
  XYNTRA_TRY(Shape shape, broadcast_shapes(c, c.shape(0), values));
  c.set_shape(0, std::move(shape));
  return {};
}

Status qlinear_concat(InferenceContext& c) {
  if (c.input_count() < 5 || (c.input_count() - 2) % 3 != 0) {
    return c.fail("needs a scale and a zero point, then tensor, scale and zero point for each part");
  }
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(2)));
  Shape shape = c.shape(2);
  for (std::size_t n = 5; n < c.input_count(); n += 3) {
    if (c.rank(n) != shape.size()) return c.fail("operand " + std::to_string(n) + " differs in rank");
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d != axis && !may_be_equal(shape[d], c.dim(n, d))) {
        return c.fail("operand " + std::to_string(n) + " differs in size along axis " + std::to_string(d));
      }
    }
    shape[axis] = shape[axis] + c.dim(n, axis);
  }
  c.set_shape(0, std::move(shape));
  c.set_dtype(0, c.dtype(1));
  return {};
}

Status qlinear_global_average_pool(InferenceContext& c) {
  if (c.rank(0) < 3) return c.fail("operand 0 (x) must have batch, channel and spatial dimensions");
  Shape shape(c.rank(0), 1);
  shape[0] = c.dim(0, 0);
  shape[channel_axis(c)] = c.dim(0, channel_axis(c));
  c.set_shape(0, std::move(shape));
  return {};
}

Status qlinear_average_pool(InferenceContext& c) {
  XYNTRA_TRY(Window window, quantized_pooling_window(c));
  Shape shape = window.output;
  shape.insert(shape.begin(), c.dim(0, 0));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(channel_axis(c)), c.dim(0, channel_axis(c)));
  c.set_shape(0, std::move(shape));
  return {};
}

Status qlinear_reduce_mean(InferenceContext& c) {
  XYNTRA_TRY(auto axes, c.normalized_axes(c.integers("axes"), c.rank(0)));
  Shape shape;
  for (std::size_t d = 0; d < c.rank(0); ++d) {
    bool reduced = axes.empty() || std::find(axes.begin(), axes.end(), d) != axes.end();
    if (!reduced || c.flag("keepdims")) shape.push_back(reduced ? Dim(1) : c.dim(0, d));
  }
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {
namespace {

template <class Operation>
Status qlinear_binary(FormulaContext& c, Operation operation) {
  Axes i = c.axes(c.out_shape());
  Expr a = real_at(c, 0, broadcast(c.in(0), i)), b = real_at(c, 3, broadcast(c.in(3), i));
  c.write(c.out(), i, requantized(c, operation(a, b), 6));
  return {};
}

template <class Operation>
Status qlinear_unary(FormulaContext& c, Operation operation) {
  Axes i = c.axes(c.out_shape());
  Expr x = real_at(c, 0, c.in(0)(i));
  c.write(c.out(), i, requantized(c, operation(x), 3));
  return {};
}

// The mean of x over `reduced`, where `index` reads x and `out` stores.
void qlinear_mean(FormulaContext& c, const Axes& out, const Axes& reduced, const Index& index) {
  Dim count = 1;
  for (const Axis& axis : reduced) count = count * axis.extent;
  Expr q = offset_removed(c.in(0)(index), scalar_or_absent(c, 2));
  c.write_reduced(c.out(), out, Reducer::Sum, reduced, q, [&](const Expr& sum) {
    Expr mean = cast(DType::F32, sum) * scalar_parameter(c.in(1)) / cast(DType::F32, Expr::size(count));
    return requantized(c, mean, 3);
  });
}

}  // namespace

Status qlinear_add(FormulaContext& c) {
  return qlinear_binary(c, [](const Expr& a, const Expr& b) { return a + b; });
}
Status qlinear_mul(FormulaContext& c) {
  return qlinear_binary(c, [](const Expr& a, const Expr& b) { return a * b; });
}
Status qlinear_sigmoid(FormulaContext& c) {
  return qlinear_unary(c, [](const Expr& x) { return sigmoid(x); });
}
Status qlinear_leaky_relu(FormulaContext& c) {
  double alpha = c.real("alpha");
  return qlinear_unary(c, [alpha](const Expr& x) { return select(x < 0, alpha * x, x); });
}

Status qlinear_where(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr condition = broadcast(c.in(0), i);
  Expr x = real_at(c, 1, broadcast(c.in(1), i)), y = real_at(c, 4, broadcast(c.in(4), i));
  c.write(c.out(), i, requantized(c, select(condition, x, y), 7));
  return {};
}

// Before opset 13 the axes from `axis` on are one row, since then a row is that axis alone.
Status qlinear_softmax(FormulaContext& c) {
  Buffer q = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), q.rank()));
  Axes point = c.axes(q.shape()), rows, reduced;
  Index along = to_index(point);
  for (std::size_t d = 0; d < q.rank(); ++d) {
    bool in_row = c.integer("opset") < 13 ? d >= axis : d == axis;
    if (in_row) reduced.push_back(c.axis(q.dim(d), "k" + std::to_string(d)));
    if (in_row) along[d] = reduced.back();
    if (!in_row) rows.push_back(point[d]);
  }
  Expr x = real_at(c, 0, q(along));
  Buffer m = c.reduce("m", rows, Reducer::Max, reduced, x);
  Buffer s = c.reduce("s", rows, Reducer::Sum, reduced, exp(x - m(rows)));
  c.write(c.out(), point, requantized(c, exp(real_at(c, 0, q(point)) - m(rows)) / s(rows), 3));
  return {};
}

Status qlinear_concat(FormulaContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(2)));
  Dim start = 0;
  for (std::size_t n = 2; n < c.input_count(); n += 3) {
    Axes i = c.axes(c.shape(n));
    Index store = replaced(to_index(i), axis, Expr::size(start) + i[axis].expr());
    c.write_at(c.out(), i, store, requantized(c, real_at(c, n, c.in(n)(i)), 0));
    start = start + c.dim(n, axis);
  }
  return {};
}

Status qlinear_global_average_pool(FormulaContext& c) {
  Axes out = c.axes(c.out_shape()), reduced;
  Index index = to_index(out);
  for (std::size_t d = 1; d < c.rank(0); ++d) {
    if (d == channel_axis(c)) continue;
    reduced.push_back(c.axis(c.dim(0, d), "k" + std::to_string(d)));
    index[d] = reduced.back();
  }
  qlinear_mean(c, out, reduced, index);
  return {};
}

Status qlinear_reduce_mean(FormulaContext& c) {
  XYNTRA_TRY(auto axes, c.normalized_axes(c.integers("axes"), c.rank(0)));
  Axes out = c.axes(c.out_shape()), reduced;
  Index index;
  std::size_t next_out = 0;
  for (std::size_t d = 0; d < c.rank(0); ++d) {
    if (!axes.empty() && std::find(axes.begin(), axes.end(), d) == axes.end()) {
      index.push_back(out[next_out++]);
      continue;
    }
    reduced.push_back(c.axis(c.dim(0, d), "k" + std::to_string(d)));
    index.push_back(reduced.back());
    if (c.flag("keepdims")) ++next_out;
  }
  qlinear_mean(c, out, reduced, index);
  return {};
}

// The mean of the taps that lie inside, or of all of them.
Status qlinear_average_pool(FormulaContext& c) {
  Buffer x = c.in(0);
  XYNTRA_TRY(Window window, quantized_pooling_window(c));
  Axes out = c.axes(c.out_shape()), taps = c.axes(window.kernel);
  Index spatial = window_index(window, spatial_part(c, out), taps), from = to_index(out);
  Shape sizes;
  for (std::size_t d = 1; d < from.size(); ++d) {
    if (d == channel_axis(c)) continue;
    from[d] = spatial[sizes.size()];
    sizes.push_back(x.dim(d));
  }
  Expr inside = within(spatial, sizes), zero = Expr::number(DType::I32, 0), one = Expr::number(DType::I32, 1);
  Buffer count = c.reduce("count", out, Reducer::Sum, taps,
                          c.flag("count_include_pad") ? one : select(inside, one, zero));
  Expr q = offset_removed(x.load_or(Expr::number(x.dtype(), 0), from), scalar_or_absent(c, 2));
  c.write_reduced(c.out(), out, Reducer::Sum, taps, select(inside, q, zero), [&](const Expr& sum) {
    Expr mean = cast(DType::F32, sum) * scalar_parameter(c.in(1)) / cast(DType::F32, count(out));
    return requantized(c, mean, 3);
  });
  return {};
}

}  // namespace formula
}  // namespace xyntra
