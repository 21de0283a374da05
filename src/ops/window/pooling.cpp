// Pooling: a window reduced to one number.
#include "ops/operands.h"
#include "ops/window/window.h"

namespace xyntra {
namespace {

Result<Window> pooling_window(const OpContext& c) {
  XYNTRA_TRY(Shape spatial, spatial_of(c, 0));
  std::vector<std::int64_t> kernel = c.integers("kernel_shape");
  for (std::int64_t size : kernel) {
    if (size < 1) return c.fail("kernel_shape has the entry " + std::to_string(size));
  }
  return window_of(c, spatial, shape_of(kernel));
}

// What MaxPool's operand had as shape, from its result's: the space in which MaxUnpool's indices count.
Result<Shape> unpooled_shape(const OpContext& c) {
  XYNTRA_TRY(Shape spatial, spatial_of(c, 0));
  XYNTRA_TRY(auto strides, positive_list(c, "strides", spatial.size()));
  std::vector<std::int64_t> kernel = c.integers("kernel_shape"), pads = c.integers("pads");
  if (kernel.size() != spatial.size()) return c.fail("kernel_shape does not fit the spatial axes");
  pads.resize(2 * spatial.size(), 0);
  Shape shape{c.dim(0, 0), c.dim(0, 1)};
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    shape.push_back((spatial[d] - 1) * strides[d] + kernel[d] - pads[d] - pads[d + spatial.size()]);
  }
  return shape;
}

}  // namespace

namespace rule {

Status pooling(InferenceContext& c) {
  XYNTRA_TRY(Window window, pooling_window(c));
  Shape shape{c.dim(0, 0), c.dim(0, 1)};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  for (std::size_t i = 0; i < c.output_count(); ++i) c.set_shape(i, shape);
  return {};
}

Status global_pooling(InferenceContext& c) {
  XYNTRA_TRY(Shape spatial, spatial_of(c, 0));
  Shape shape{c.dim(0, 0), c.dim(0, 1)};
  shape.resize(2 + spatial.size(), 1);
  c.set_shape(0, std::move(shape));
  return {};
}

Status max_unpool(InferenceContext& c) {
  XYNTRA_TRY(Shape shape, unpooled_shape(c));
  if (c.has_input(2)) {
    auto wanted = c.elements(2);
    shape = wanted ? *wanted : c.unknown_shape(0, c.rank(0));
    if (shape.size() != c.rank(0)) return c.fail("output_shape does not have the operand's rank");
  }
  c.set_shape(0, std::move(shape));
  return {};
}

Status max_roi_pool(InferenceContext& c) {
  std::vector<std::int64_t> pooled = c.integers("pooled_shape");
  if (c.rank(0) != 4 || c.rank(1) != 2) return c.fail("operands must have ranks 4 and 2");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1) return c.fail("pooled_shape must be two sizes");
  c.set_shape(0, {c.dim(1, 0), c.dim(0, 1), pooled[0], pooled[1]});
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Combiner;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

Expr lowest(DType dtype) {
  return is_float(dtype) ? Expr::floating(dtype, -std::numeric_limits<double>::infinity())
                         : Expr::integer(dtype, lowest_integer(dtype));
}

// The axes of one pooling: result (n, c, o…), window taps k…, and where a tap reads.
struct Pool {
  Window window;
  Axes result, taps;
  Index from;
};

Result<Pool> pool_of(FormulaContext& c) {
  Pool pool;
  XYNTRA_TRY(pool.window, pooling_window(c));
  pool.result = c.axes(c.out_shape());
  pool.taps = c.axes(pool.window.kernel);
  pool.from = {pool.result[0], pool.result[1]};
  Axes o(pool.result.begin() + 2, pool.result.end());
  for (const Expr& e : window_index(pool.window, o, pool.taps)) pool.from.push_back(e);
  return pool;
}

// The whole of every channel as one window.
Pool global_pool_of(FormulaContext& c) {
  Pool pool;
  const Shape& shape = c.shape(0);
  pool.result = c.axes(c.out_shape());
  pool.taps = c.axes(Shape(shape.begin() + 2, shape.end()));
  pool.from = {pool.result[0], pool.result[1]};
  for (const Axis& tap : pool.taps) pool.from.push_back(tap);
  return pool;
}

// |x|^p summed, then its p-th root.
Status lp_pool(FormulaContext& c, const Pool& pool) {
  if (c.integer("p") < 1) return c.fail("p is " + std::to_string(c.integer("p")));
  Buffer x = c.in(0);
  DType type = compute_type(x.dtype());
  auto p = static_cast<double>(c.integer("p"));
  Expr magnitude = abs(cast(type, x.load_or(Expr::number(x.dtype(), 0), pool.from)));
  Expr power = p == 1 ? magnitude : p == 2 ? magnitude * magnitude : pow(magnitude, p);
  c.write_reduced(c.out(), pool.result, Reducer::Sum, pool.taps, power, [&](const Expr& sum) {
    return p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p);
  });
  return {};
}

// Position of an element in its tensor: row-major, or with the spatial axes column-major.
Expr flat_position(const Index& index, const Shape& shape, bool column_major) {
  if (!column_major) return row_major(index, shape);
  Index reversed{index[0], index[1]};
  Shape sizes{shape[0], shape[1]};
  for (std::size_t d = index.size(); d-- > 2;) {
    reversed.push_back(index[d]);
    sizes.push_back(shape[d]);
  }
  return row_major(reversed, sizes);
}

}  // namespace

// The indices point at the first tap that equals the maximum; a NaN is one.
Status max_pool(FormulaContext& c) {
  XYNTRA_TRY(Pool pool, pool_of(c));
  Buffer x = c.in(0), y = c.out();
  Expr tap = x.load_or(lowest(x.dtype()), pool.from);
  c.write_reduced(y, pool.result, Reducer::Max, pool.taps, tap);
  if (!c.wants_output(1)) return {};
  Expr best = y(pool.result);
  Expr inside =
      within(Index(pool.from.begin() + 2, pool.from.end()), Shape(x.shape().begin() + 2, x.shape().end()));
  Expr found = equal(tap, best);
  if (is_float(x.dtype())) found = found | (is_nan(tap) & is_nan(best));
  Expr position = row_major(pool.from, x.shape()), none = Expr::index(INT64_MAX);
  bool column_major = c.flag("storage_order");
  // The first one is the one with the lowest row-major position, whatever order its number is in.
  Buffer first =
      c.reduce("first", pool.result, Reducer::Min, pool.taps, select(inside & found, position, none));
  Axes i = c.axes(y.shape());
  Expr chosen_position = first(i);
  if (column_major) {
    Index index(x.rank());
    for (std::size_t d = x.rank(); d-- > 0;) {
      index[d] = d == 0 ? chosen_position : mod(chosen_position, Expr::size(x.dim(d)));
      chosen_position = floor_div(chosen_position, Expr::size(x.dim(d)));
    }
    chosen_position = flat_position(index, x.shape(), true);
  }
  c.write(c.out(1), i, chosen_position);
  return {};
}

// The mean of what lies inside the operand, or inside it and its padding.
Status average_pool(FormulaContext& c) {
  XYNTRA_TRY(Pool pool, pool_of(c));
  Buffer x = c.in(0);
  DType type = compute_type(x.dtype());
  bool with_padding = c.flag("count_include_pad");
  Expr count = Expr::number(type, 1);
  Axes o = c.axes(pool.window.output), k = c.axes(pool.window.kernel);
  Index at = window_index(pool.window, o, k);
  for (std::size_t d = 0; d < pool.window.rank(); ++d) {
    const Dim &begin = pool.window.pads_begin[d], &extent = x.dim(d + 2);
    Expr low = with_padding ? Expr::size(Dim(0) - begin) : Expr::index(0);
    Expr high = Expr::size(with_padding ? extent + pool.window.pads_end[d] : extent);
    Buffer inside =
        c.reduce("count" + std::to_string(d), {o[d]}, Reducer::Sum, {k[d]},
                 select((at[d] >= low) & (at[d] < high), Expr::number(type, 1), Expr::number(type, 0)));
    count = count * inside(pool.result[d + 2]);
  }
  Expr tap = cast(type, x.load_or(Expr::number(x.dtype(), 0), pool.from));
  c.write_reduced(c.out(), pool.result, Reducer::Sum, pool.taps, tap,
                  [&](const Expr& sum) { return sum / count; });
  return {};
}

Status lp_pool(FormulaContext& c) {
  XYNTRA_TRY(Pool pool, pool_of(c));
  return lp_pool(c, pool);
}

Status global_max_pool(FormulaContext& c) {
  Pool pool = global_pool_of(c);
  c.write_reduced(c.out(), pool.result, Reducer::Max, pool.taps, c.in(0)(pool.from));
  return {};
}

Status global_average_pool(FormulaContext& c) {
  Pool pool = global_pool_of(c);
  DType type = compute_type(c.dtype(0));
  Shape spatial(c.shape(0).begin() + 2, c.shape(0).end());
  Expr count = cast(type, Expr::size(product(spatial)));
  c.write_reduced(c.out(), pool.result, Reducer::Sum, pool.taps, cast(type, c.in(0)(pool.from)),
                  [&](const Expr& sum) { return sum / count; });
  return {};
}

Status global_lp_pool(FormulaContext& c) { return lp_pool(c, global_pool_of(c)); }

// Zeros, and each element where MaxPool found it.
Status max_unpool(FormulaContext& c) {
  XYNTRA_TRY(Shape counted, unpooled_shape(c));
  Buffer x = c.in(0), y = c.out();
  Axes all = c.axes(y.shape());
  c.write(y, all, Expr::number(y.dtype(), 0));
  Axes i = c.axes(x.shape());
  Expr rest = c.in(1)(i);
  Index to(y.rank());
  for (std::size_t d = y.rank(); d-- > 0;) {
    to[d] = d == 0 ? rest : mod(rest, Expr::size(counted[d]));
    rest = floor_div(rest, Expr::size(counted[d]));
  }
  c.scatter(y, i, to, Combiner::Replace, x(i));
  return {};
}

// Each region (batch, x1, y1, x2, y2) is cut into bins; an empty bin gives 0.
Status max_roi_pool(FormulaContext& c) {
  Buffer x = c.in(0), rois = c.in(1), y = c.out();
  DType type = compute_type(x.dtype());
  Axes i = c.axes(y.shape());
  Axis h = c.axis(x.dim(2), "h"), w = c.axis(x.dim(3), "w");
  Expr region = i[0], scale = Expr::number(type, c.real("spatial_scale")), one = Expr::number(type, 1);
  auto corner = [&](int which) {
    Expr scaled = cast(type, rois(region, Expr::index(which))) * scale;
    return floor(scaled + Expr::number(type, 0.5));  // half away from zero, as C's round does for these
  };
  // [first, last) of bin b of `bins` between two corners, clamped to the operand.
  auto bounds = [&](const Expr& low, const Expr& high, const Axis& bin, const Dim& extent) {
    Expr size = max(high - low + one, one) / cast(type, Expr::size(bin.extent));
    Expr limit = cast(type, Expr::size(extent)), zero = Expr::number(type, 0);
    auto clamped = [&](const Expr& e) { return as_index(min(max(e + low, zero), limit)); };
    Expr b = cast(type, bin.expr());
    return std::pair(clamped(floor(b * size)), clamped(ceil((b + one) * size)));
  };
  auto [top, bottom] = bounds(corner(2), corner(4), i[2], x.dim(2));
  auto [left, right] = bounds(corner(1), corner(3), i[3], x.dim(3));
  Expr inside = (h.expr() >= top) & (h.expr() < bottom) & (w.expr() >= left) & (w.expr() < right);
  Expr value = select(inside, x(as_index(rois(region, Expr::index(0))), i[1], h, w), lowest(x.dtype()));
  Expr empty = (bottom <= top) | (right <= left);
  c.write_reduced(y, i, Reducer::Max, {h, w}, value,
                  [&](const Expr& most) { return select(empty, Expr::number(x.dtype(), 0), most); });
  return {};
}

}  // namespace formula
}  // namespace xyntra
