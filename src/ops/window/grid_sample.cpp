// Sampling at positions that are data: GridSample, AffineGrid, RoiAlign.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "ops/host_context.h"
#include "ops/operand_shapes.h"
#include "ops/operands.h"

namespace xyntra {
namespace {

enum class Padding { Zeros, Border, Reflection };

Result<Padding> padding_of(const OpContext& c) {
  const std::string& mode = c.text("padding_mode");
  if (mode == "zeros") return Padding::Zeros;
  if (mode == "border") return Padding::Border;
  if (mode == "reflection") return Padding::Reflection;
  return c.fail("padding_mode '" + mode + "' is not known");
}

// How many neighbours along each axis make a sample.
Result<std::int64_t> taps_of(const OpContext& c) {
  const std::string& mode = c.text("mode");
  if (mode == "nearest") return 1;
  if (mode == "linear" || mode == "bilinear") return 2;
  if (mode == "cubic" || mode == "bicubic") return 4;
  return c.fail("mode '" + mode + "' is not known");
}

}  // namespace

namespace rule {

Status grid_sample(InferenceContext& c) {
  if (c.rank(0) < 3 || c.rank(1) != c.rank(0))
    return c.fail("x and grid must have the same rank of 3 or more");
  const Dim& coordinates = c.shape(1).back();
  auto spatial = static_cast<std::int64_t>(c.rank(0)) - 2;
  if (coordinates.is_constant() && !coordinates.is(spatial)) {
    return c.fail("grid has " + coordinates.to_string() + " coordinates for " + std::to_string(spatial) +
                  " spatial axes");
  }
  Shape shape{c.dim(0, 0), c.dim(0, 1)};
  for (std::size_t d = 1; d + 1 < c.rank(1); ++d) shape.push_back(c.dim(1, d));
  c.set_shape(0, std::move(shape));
  return {};
}

Status affine_grid(InferenceContext& c) {
  auto size = c.elements(1);
  auto length = list_length(c, 1);
  if (!length) return {};
  if (*length != 4 && *length != 5) return c.fail("size must have 4 or 5 entries");
  if (!may_be_equal(c.dim(0, 1), Dim(static_cast<std::int64_t>(*length) - 2))) {
    return c.fail("theta is " + to_string(c.shape(0)) + " but size has " + std::to_string(*length) +
                  " entries");
  }
  if (size && !may_be_equal(size->front(), c.dim(0, 0))) return c.fail("theta and size differ in the batch");
  Shape shape{c.dim(0, 0)};
  for (std::size_t d = 2; d < *length; ++d) shape.push_back(size ? (*size)[d] : c.unknown_dim(0, d - 1));
  shape.push_back(static_cast<std::int64_t>(*length) - 2);
  c.set_shape(0, std::move(shape));
  return {};
}

Status roi_align(InferenceContext& c) {
  if (c.rank(0) != 4 || c.rank(1) != 2 || c.rank(2) != 1)
    return c.fail("operands must have ranks 4, 2 and 1");
  if (c.dim(1, 1).is_constant() && !c.dim(1, 1).is(4)) return c.fail("rois must be [regions, 4]");
  if (c.dim(1, 0).is_constant() && c.dim(2, 0).is_constant() && !(c.dim(1, 0) == c.dim(2, 0))) {
    return c.fail("rois and batch_indices differ in number");
  }
  if (c.integer("output_height") < 1 || c.integer("output_width") < 1)
    return c.fail("the output has no size");
  c.set_shape(0, {c.dim(1, 0), c.dim(0, 1), c.integer("output_height"), c.integer("output_width")});
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

// x folded back and forth between low and high until it lies between them.
Expr reflected(const Expr& x, const Expr& low, const Expr& high) {
  Expr range = high - low, period = range * 2, distance = abs(x - low);
  Expr rest = distance - floor(distance / period) * period;
  Expr folded = low + select(rest > range, period - rest, rest);
  return select(range <= 0, low, select((x < low) | (x > high), folded, x));
}

// Weight of the tap at signed distance t for cubic interpolation with a = -0.75.
Expr cubic_weight(const Expr& distance) {
  constexpr double kA = -0.75;
  DType type = distance.dtype();
  auto number = [type](double value) { return Expr::floating(type, value); };
  Expr t = abs(distance);
  Expr near = (number(kA + 2) * t - number(kA + 3)) * t * t + number(1);
  Expr far = ((number(kA) * t - number(5 * kA)) * t + number(8 * kA)) * t - number(4 * kA);
  return select(t <= 1, near, far);
}

// A tap's position brought inside, for the padding modes that do so.
Expr inside(Padding padding, const Expr& i, const Dim& extent, bool align_corners) {
  Expr size = Expr::size(extent), last = size - 1;
  switch (padding) {
    case Padding::Zeros: return i;
    case Padding::Border: return max(min(i, last), Expr::index(0));
    case Padding::Reflection:
      if (align_corners) return last - abs(last - mod(i, last * 2));
      Expr around = mod(i, size * 2);
      return min(around, size * 2 - 1 - around);
  }
  return i;
}

}  // namespace

// y[n, c, o…] = sum over the taps around x = grid[n, o…, :], scaled from [-1, 1] to the operand's axes.
Status grid_sample(FormulaContext& c) {
  Buffer x = c.in(0), grid = c.in(1);
  XYNTRA_TRY(Padding padding, padding_of(c));
  XYNTRA_TRY(std::int64_t taps, taps_of(c));
  bool align_corners = c.flag("align_corners");
  DType type = compute_type(grid.dtype());
  std::size_t spatial = x.rank() - 2;
  Axes i = c.axes(c.out_shape());
  Axes k = c.axes(Shape(spatial, taps));
  Index from{i[0], i[1]};
  Expr weight = Expr::number(type, 1);
  for (std::size_t d = 0; d < spatial; ++d) {
    Index at{i[0]};
    for (std::size_t s = 0; s < spatial; ++s) at.push_back(i[s + 2]);
    at.push_back(
        Expr::index(static_cast<std::int64_t>(spatial - 1 - d)));  // coordinates run from the last axis
    Expr normalized = cast(type, grid(at)), length = cast(type, Expr::size(x.dim(d + 2)));
    Expr position = align_corners ? (normalized + 1) / Expr::number(type, 2) * (length - 1)
                                  : ((normalized + 1) * length - 1) / Expr::number(type, 2);
    if (taps == 1) position = round(position);
    Expr low = Expr::number(type, align_corners ? 0 : -0.5);
    Expr high = align_corners ? length - 1 : length - 0.5;
    if (padding == Padding::Reflection) position = reflected(position, low, high);
    Expr base = floor(position), tap = as_index(base) + k[d] - (taps == 4 ? 1 : 0);
    Expr distance = position - cast(type, tap);
    if (taps == 2) weight = weight * (Expr::number(type, 1) - abs(distance));
    if (taps == 4) weight = weight * cubic_weight(distance);
    from.push_back(inside(padding, tap, x.dim(d + 2), align_corners));
  }
  Expr value = x.load_or(Expr::number(x.dtype(), 0), from);
  if (taps == 1) {
    c.write_reduced(c.out(), i, Reducer::Sum, k, value);
    return {};
  }
  c.write_reduced(c.out(), i, Reducer::Sum, k, cast(type, value) * weight);
  return {};
}

// grid[n, o…, r] = sum(j) theta[n, r, j] * (…, y, x reversed, 1)[j] with coordinates in [-1, 1].
Status affine_grid(FormulaContext& c) {
  Buffer theta = c.in(0);
  DType type = compute_type(theta.dtype());
  Axes i = c.axes(c.out_shape());
  std::size_t spatial = i.size() - 2;
  Expr sum;
  for (std::size_t j = 0; j <= spatial; ++j) {
    Expr coefficient = cast(type, theta(i[0], i.back(), Expr::index(static_cast<std::int64_t>(j))));
    if (j == spatial) {
      sum = sum + coefficient;
      continue;
    }
    const Axis& axis = i[spatial - j];
    Expr position = cast(type, axis.expr()), length = cast(type, Expr::size(axis.extent));
    Expr coordinate = c.flag("align_corners")
                          ? select(length > 1, position * 2 / (length - 1) - 1, Expr::number(type, 0))
                          : (position * 2 + 1) / length - 1;
    Expr term = coefficient * coordinate;
    sum = sum.defined() ? sum + term : term;
  }
  c.write(c.out(), i, sum);
  return {};
}

}  // namespace formula

namespace host {
namespace {

// The four neighbours of a point in one channel, each times its weight.
std::array<double, 4> weighted_corners(const Tensor& x, std::int64_t plane, double y, double v) {
  std::int64_t height = x.dims()[2], width = x.dims()[3];
  bool reachable = y >= -1 && y <= static_cast<double>(height) && v >= -1 && v <= static_cast<double>(width);
  if (!reachable) return {};  // also where a coordinate is NaN
  auto split = [](double at, std::int64_t extent) {
    at = std::max(at, 0.0);
    auto low = static_cast<std::int64_t>(at);
    if (low >= extent - 1) return std::tuple(extent - 1, extent - 1, 0.0);
    return std::tuple(low, low + 1, at - static_cast<double>(low));
  };
  auto [top, bottom, down] = split(y, height);
  auto [left, right, across] = split(v, width);
  auto at = [&](std::int64_t row, std::int64_t column) {
    return x.element_as_f64((plane * height + row) * width + column);
  };
  return {(1 - down) * (1 - across) * at(top, left), (1 - down) * across * at(top, right),
          down * (1 - across) * at(bottom, left), down * across * at(bottom, right)};
}

}  // namespace

// The number of samples in a bin depends on the region's size, so this is no formula.
Status roi_align(HostContext& c) {
  const Tensor &x = c.input(0), &rois = c.input(1), &batches = c.input(2);
  std::int64_t height = c.integer("output_height"), width = c.integer("output_width");
  std::int64_t ratio = c.integer("sampling_ratio"), channels = x.dims()[1], regions = rois.dims()[0];
  bool half_pixel = c.text("coordinate_transformation_mode") != "output_half_pixel";
  bool average = c.text("mode") != "max";
  double scale = c.real("spatial_scale"), offset = half_pixel ? 0.5 : 0.0;
  XYNTRA_TRY(Tensor result, c.allocate(x.dtype(), {regions, channels, height, width}));
  for (std::int64_t region = 0; region < regions; ++region) {
    XYNTRA_CHECK_OK(c.check_time());
    std::int64_t batch = batches.element_as_i64(region);
    if (batch < 0 || batch >= x.dims()[0]) {
      return c.fail("batch_indices[" + std::to_string(region) + "] is " + std::to_string(batch) +
                    ", the operand has " + std::to_string(x.dims()[0]) + " batches");
    }
    auto corner = [&](std::int64_t i) { return rois.element_as_f64(region * 4 + i) * scale - offset; };
    double left = corner(0), top = corner(1), roi_width = corner(2) - left, roi_height = corner(3) - top;
    if (!half_pixel) {
      roi_width = std::max(roi_width, 1.0);
      roi_height = std::max(roi_height, 1.0);
    }
    double bin_height = roi_height / static_cast<double>(height),
           bin_width = roi_width / static_cast<double>(width);
    auto samples = [ratio](double bin) {
      if (ratio > 0) return std::min<std::int64_t>(ratio, 1 << 30);
      return bin > 0 ? static_cast<std::int64_t>(std::min(std::ceil(bin), 0x1p30)) : std::int64_t{0};
    };
    std::int64_t rows = samples(bin_height), columns = samples(bin_width);
    for (std::int64_t at = 0; at < channels * height * width; ++at) {
      std::int64_t channel = at / (height * width), py = at / width % height, px = at % width;
      double sum = 0, most = 0;
      bool first = true;
      for (std::int64_t s = 0; s < rows * columns; ++s) {
        if (s % 4096 == 4095) XYNTRA_CHECK_OK(c.check_time());
        const std::int64_t row = s / columns;
        double y =
            top + (static_cast<double>(py) + (static_cast<double>(row) + 0.5) / static_cast<double>(rows)) *
                      bin_height;
        double v = left + (static_cast<double>(px) +
                           (static_cast<double>(s % columns) + 0.5) / static_cast<double>(columns)) *
                              bin_width;
        auto corners = weighted_corners(x, batch * channels + channel, y, v);
        double greatest = *std::max_element(corners.begin(), corners.end());
        most = first ? greatest : std::max(most, greatest);
        sum += corners[0] + corners[1] + corners[2] + corners[3];
        first = false;
      }
      double mean = sum / static_cast<double>(std::max<std::int64_t>(rows * columns, 1));
      double value = average ? mean : most;
      if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();  // the one NaN of formulas
      result.set_element_f64(region * channels * height * width + at, value);
    }
  }
  c.set_result(0, std::move(result));
  return {};
}

}  // namespace host
}  // namespace xyntra
