// Fourier transforms, window functions and the mel scale.
#include <cmath>
#include <numbers>

#include "ops/operands.h"
#include "ops/rules.h"

namespace xyntra {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// The transformed axis; nullopt when only running tells.
Result<std::optional<std::size_t>> dft_axis(const OpContext& c) {
  std::int64_t axis = -2;
  if (c.has_input(2)) {
    auto given = c.integers_of(2);
    if (!given) return std::nullopt;
    if (given->size() != 1) return c.fail("axis must be one number");
    axis = given->front();
  }
  XYNTRA_TRY(std::size_t normal, c.normalized_axis(axis, c.rank(0)));
  if (normal + 1 == c.rank(0))
    return c.fail("axis must not be the last one, which holds real and imaginary parts");
  return normal;
}

// Number of points of the transform; nullopt when only running tells.
Result<std::optional<Dim>> dft_points(const OpContext& c, std::size_t axis) {
  if (c.has_input(1)) return known_integer(c, 1);
  bool from_half = c.flag("inverse") && c.flag("onesided");
  return std::optional(from_half ? (c.dim(0, axis) - 1) * 2 : c.dim(0, axis));
}

// frame_length, or the window's size.
Result<std::optional<Dim>> frame_points(const OpContext& c) {
  if (c.has_input(3)) return known_integer(c, 3);
  if (!c.has_input(2)) return c.fail("needs a window or frame_length");
  if (c.rank(2) != 1) return c.fail("operand 2 (window) must have rank 1, not " + std::to_string(c.rank(2)));
  return std::optional(c.dim(2, 0));
}

Status set_output_datatype(InferenceContext& c) {
  XYNTRA_TRY(DType dtype, dtype_attribute(c, "output_datatype"));
  c.set_dtype(0, dtype);
  return {};
}

}  // namespace

namespace rule {

Status dft(InferenceContext& c) {
  if (c.rank(0) < 2) return c.fail("operand 0 must have at least rank 2");
  XYNTRA_TRY(auto known_axis, dft_axis(c));
  bool onesided = c.flag("onesided"), inverse = c.flag("inverse");
  Shape shape = c.shape(0);
  if (!known_axis) {
    shape = c.unknown_shape(0, c.rank(0));
    shape.back() = onesided && inverse ? 1 : 2;
    c.set_shape(0, std::move(shape));
    return {};
  }
  std::size_t axis = *known_axis;
  XYNTRA_TRY(auto points, dft_points(c, axis));
  shape[axis] = !points ? c.unknown_dim(0, axis) : onesided && !inverse ? floor_div(*points, 2) + 1 : *points;
  shape.back() = onesided && inverse ? 1 : 2;
  c.set_shape(0, std::move(shape));
  return {};
}

Status stft(InferenceContext& c) {
  if (c.rank(0) != 2 && c.rank(0) != 3) {  // real: batch and time, or with a last axis of size 1
    return c.fail("operand 0 (signal) must have rank 2 or 3, not " + std::to_string(c.rank(0)));
  }
  XYNTRA_TRY(auto points, frame_points(c));
  XYNTRA_TRY(auto step, known_integer(c, 1));
  Shape shape = c.unknown_shape(0, 4);
  shape[0] = c.dim(0, 0);
  shape[3] = 2;
  if (points && step) {
    if (step->is_constant() && step->constant() < 1) return c.fail("frame_step is not positive");
    shape[1] = floor_div(c.dim(0, 1) - *points, *step) + 1;
  }
  if (points) shape[2] = c.flag("onesided") ? floor_div(*points, 2) + 1 : *points;
  c.set_shape(0, std::move(shape));
  return {};
}

Status window_function(InferenceContext& c) {
  XYNTRA_CHECK_OK(set_output_datatype(c));
  XYNTRA_TRY(auto size, known_integer(c, 0));
  c.set_shape(0, {size ? *size : c.unknown_dim(0, 0)});
  return {};
}

Status mel_weight_matrix(InferenceContext& c) {
  XYNTRA_CHECK_OK(set_output_datatype(c));
  XYNTRA_TRY(auto bins, known_integer(c, 0));
  XYNTRA_TRY(auto points, known_integer(c, 1));
  c.set_shape(0,
              {points ? floor_div(*points, 2) + 1 : c.unknown_dim(0, 0), bins ? *bins : c.unknown_dim(0, 1)});
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

// Twiddle factors: cos and sin of 2π j/points.
struct Twiddles {
  Buffer cosine, sine;
  Expr points;
  Expr cos(const Expr& j) const { return cosine(mod(j, points)); }
  Expr sin(const Expr& j) const { return sine(mod(j, points)); }
};

Twiddles twiddles_of(FormulaContext& c, DType type, const Dim& points) {
  Axis j = c.axis(points, "j");
  Expr angle = cast(DType::F64, j.expr()) * kTwoPi / cast(DType::F64, Expr::size(points));
  Buffer cosine = c.map("cosine", {j}, cast(type, cos(angle))),
         sine = c.map("sine", {j}, cast(type, sin(angle)));
  return {cosine, sine, Expr::size(points)};
}

Expr scalar(FormulaContext& c, std::size_t operand, DType type) {
  Buffer x = c.in(operand);
  return cast(type, x(Index(x.rank(), Expr::index(0))));
}

}  // namespace

// y[k] = sum(n) x[n] * exp(∓2πi k n / N): a contraction with a matrix that is made of N numbers.
Status dft(FormulaContext& c) {
  Buffer x = c.in(0), y = c.out();
  XYNTRA_TRY(auto known_axis, dft_axis(c));
  if (!known_axis) return c.unsupported("an axis that is not constant");
  std::size_t axis = *known_axis;
  XYNTRA_TRY(auto points, dft_points(c, axis));
  if (!points) return c.unsupported("a dft_length that is not known");
  bool inverse = c.flag("inverse"), to_real = inverse && c.flag("onesided");
  DType type = compute_type(x.dtype());
  Twiddles twiddles = twiddles_of(c, type, *points);
  Axes i = c.axes(y.shape());
  Axis n = c.axis(*points, "n");
  Expr zero = Expr::number(x.dtype(), 0), source = n, mirrored = Expr::boolean(false);
  if (to_real) {  // the second half of the spectrum is the first one's mirror image, conjugated
    mirrored = n > Expr::size(floor_div(*points, 2));
    source = select(mirrored, Expr::size(*points) - n, n);
  }
  auto part = [&](std::int64_t which) {
    if (x.shape().back().is(1) && which == 1) return Expr::number(type, 0);
    Index at = replaced(to_index(i), axis, source);
    at.back() = Expr::index(which);
    return cast(type, x.load_or(zero, at));
  };
  Expr real = part(0), imaginary = to_real ? select(mirrored, -part(1), part(1)) : part(1);
  Expr position = i[axis] * n, cosine = twiddles.cos(position), sine = twiddles.sin(position);
  if (!inverse) sine = -sine;
  Expr real_sum = real * cosine - imaginary * sine;
  Expr term = to_real ? real_sum : select(equal(i.back(), 0), real_sum, imaginary * cosine + real * sine);
  Expr count = cast(type, Expr::size(*points));
  c.write_reduced(y, i, Reducer::Sum, {n}, term,
                  [&](const Expr& sum) { return inverse ? sum / count : sum; });
  return {};
}

// The transform of each windowed frame of the signal.
Status stft(FormulaContext& c) {
  Buffer x = c.in(0), y = c.out();
  XYNTRA_TRY(auto points, frame_points(c));
  if (!points) return c.unsupported("a frame_length that is not known");
  DType type = compute_type(x.dtype());
  Twiddles twiddles = twiddles_of(c, type, *points);
  Axes i = c.axes(y.shape());
  Axis n = c.axis(*points, "n");
  auto part = [&](std::int64_t which) {
    if ((x.rank() == 2 || x.dim(2).is(1)) && which == 1) return Expr::number(type, 0);
    Index at{i[0], i[1] * integer_at(c, 1) + n};
    if (x.rank() == 3) at.push_back(Expr::index(which));
    const bool present = which == 0 || x.dim(2).is_constant();
    Expr sample = cast(type, present ? x(at) : x.load_or(Expr::number(x.dtype(), 0), at));
    return c.has_input(2) ? sample * cast(type, c.in(2)(n)) : sample;
  };
  Expr position = i[2] * n, cosine = twiddles.cos(position), sine = -twiddles.sin(position);
  Expr real = part(0), imaginary = part(1);
  Expr term = select(equal(i[3], 0), real * cosine - imaginary * sine, imaginary * cosine + real * sine);
  c.write_reduced(y, i, Reducer::Sum, {n}, term);
  return {};
}

namespace {

// a0 - a1 cos(x) + a2 cos(2x) over one period.
Status cosine_window(FormulaContext& c, double a0, double a1, double a2) {
  Axes i = c.axes(c.out_shape());
  Expr size = Expr::size(c.out_shape()[0]);
  Expr period = cast(DType::F64, c.flag("periodic") ? size : max(size - 1, Expr::index(1)));
  Expr x = cast(DType::F64, i[0]) * kTwoPi / period;
  auto number = [](double value) { return Expr::floating(DType::F64, value); };
  Expr value = number(a0) - number(a1) * cos(x);
  if (a2 != 0) value = value + number(a2) * cos(x * 2);
  c.write(c.out(), i, value);
  return {};
}

}  // namespace

Status hann_window(FormulaContext& c) { return cosine_window(c, 0.5, 0.5, 0); }
Status hamming_window(FormulaContext& c) { return cosine_window(c, 25.0 / 46, 21.0 / 46, 0); }
Status blackman_window(FormulaContext& c) { return cosine_window(c, 0.42, 0.5, 0.08); }

// Triangles between neighbouring edges that are evenly spaced on the mel scale.
Status mel_weight_matrix(FormulaContext& c) {
  DType type = DType::F64;
  auto number = [type](double value) { return Expr::floating(type, value); };
  auto mel = [&](const Expr& hertz) { return log(hertz / number(700) + 1) * (2595 / std::numbers::ln10); };
  const Dim& bins = c.out_shape()[1];
  Expr low = mel(scalar(c, 3, type)), high = mel(scalar(c, 4, type));
  Axis e = c.axis(bins + 2, "e");
  Expr step = (high - low) / cast(type, Expr::size(bins + 2));
  Expr hertz = (exp((cast(type, e.expr()) * step + low) * (std::numbers::ln10 / 2595)) - 1) * 700;
  Expr points = scalar(c, 1, type), rate = scalar(c, 2, type);
  Buffer edge = c.map("edge", {e}, as_index(floor((points + 1) * hertz / rate)));
  Axes i = c.axes(c.out_shape());
  Expr j = i[0], left = edge(i[1]), center = edge(i[1] + 1), right = edge(i[1] + 2);
  auto ratio = [&](const Expr& a, const Expr& b) { return cast(type, a) / cast(type, b); };
  Expr zero = number(0), one = number(1);
  Expr rising = select(equal(left, center), select(equal(j, center), one, zero),
                       select((j >= left) & (j <= center), ratio(j - left, center - left), zero));
  Expr falling = (right > center) & (j >= center) & (j < right);
  c.write(c.out(), i, select(falling, ratio(right - j, right - center), rising));
  return {};
}

}  // namespace formula
}  // namespace xyntra
