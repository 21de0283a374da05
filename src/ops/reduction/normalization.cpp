// Normalisations by mean and variance, by root mean square and by p-norm.
//
// Statistics and the whole expression are computed in f32 for narrow floats (stash_type's default) and in the
// operand's own type otherwise; the result is rounded once.
#include "ops/reduction/normalization.h"

#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

Dim count_of(const Axes& axes) {
  Dim count = 1;
  for (const Axis& axis : axes) count = count * axis.extent;
  return count;
}

}  // namespace

Moments moments(FormulaContext& c, const Axes& rows, const Axes& reduced, const Expr& x) {
  auto mean_of = [&](const Expr& total) {
    return total / cast(total.dtype(), Expr::size(count_of(reduced)));
  };
  Moments m;
  m.mean = c.reduce("mean", rows, Reducer::Sum, reduced, x, mean_of);
  Expr deviation = x - m.mean(rows);
  m.variance = c.reduce("variance", rows, Reducer::Sum, reduced, deviation * deviation, mean_of);
  return m;
}

TrailingRows trailing_rows(FormulaContext& c, const Shape& shape, std::size_t axis) {
  TrailingRows t;
  t.point = c.axes(shape);
  t.rows.assign(t.point.begin(), t.point.begin() + static_cast<std::ptrdiff_t>(axis));
  for (std::size_t d = axis; d < shape.size(); ++d) {
    t.reduced.push_back(c.axis(shape[d], "k" + std::to_string(d)));
  }
  t.along = to_index(concat(t.rows, t.reduced));
  return t;
}

Expr inverse_deviation(const Expr& variance, double epsilon) { return 1 / sqrt(variance + epsilon); }

void write_statistic(FormulaContext& c, std::size_t output, const TrailingRows& t, const Expr& value) {
  Index store = to_index(t.rows);
  store.resize(c.out_shape(output).size(), Expr::index(0));
  c.write_at(c.out(output), t.rows, store, value);
}

namespace rule {

Status layer_normalization(InferenceContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  c.set_shape(0, c.shape(0));
  Shape statistics = c.shape(0);
  for (std::size_t d = axis; d < statistics.size(); ++d) statistics[d] = 1;
  XYNTRA_TRY(DType stash, dtype_attribute(c, "stash_type"));
  for (std::size_t output = 1; output < c.output_count(); ++output) {
    c.set_shape(output, statistics);
    c.set_dtype(output, stash);
  }
  return {};
}

Status batch_normalization(InferenceContext& c) {
  c.set_shape(0, c.shape(0));
  for (std::size_t output = 1; output < c.output_count(); ++output) {
    if (!c.wants_output(output)) continue;
    if (!c.flag("training_mode")) return c.fail("has running statistics as outputs only in training mode");
    c.set_shape(output, c.shape(3));
  }
  return {};
}

Status group_normalization(InferenceContext& c) {
  std::int64_t groups = c.integer("num_groups");
  if (c.rank(0) < 2) return c.fail("operand 0 (x) must have at least two dimensions, batch and channel");
  const Dim& channels = c.dim(0, 1);
  if (groups <= 0 || (channels.is_constant() && channels.constant() % groups != 0)) {
    return c.fail("num_groups = " + std::to_string(groups) + " does not divide the " + channels.to_string() +
                  " channels");
  }
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {

Status layer_normalization(FormulaContext& c) {
  Buffer x = c.in(0), scale = c.in(1);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  TrailingRows t = trailing_rows(c, x.shape(), axis);
  Moments m = moments(c, t.rows, t.reduced, wide(x(t.along)));
  Buffer inverse = c.map("inverse", t.rows, inverse_deviation(m.variance(t.rows), c.real("epsilon")));
  Expr normal = (wide(x(t.point)) - m.mean(t.rows)) * inverse(t.rows);
  Expr y = normal * wide(broadcast(scale, t.point));
  if (c.has_input(2)) y = y + wide(broadcast(c.in(2), t.point));
  c.write(c.out(), t.point, y);
  if (c.wants_output(1)) write_statistic(c, 1, t, m.mean(t.rows));
  if (c.wants_output(2)) write_statistic(c, 2, t, inverse(t.rows));
  return {};
}

Status rms_normalization(FormulaContext& c) {
  Buffer x = c.in(0), scale = c.in(1);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  TrailingRows t = trailing_rows(c, x.shape(), axis);
  Expr along = wide(x(t.along));
  double epsilon = c.real("epsilon");
  Buffer inverse =
      c.reduce("inverse", t.rows, Reducer::Sum, t.reduced, along * along, [&](const Expr& total) {
        return inverse_deviation(total / cast(total.dtype(), Expr::size(count_of(t.reduced))), epsilon);
      });
  Expr normal = wide(x(t.point)) * inverse(t.rows);
  c.write(c.out(), t.point, normal * cast(normal.dtype(), broadcast(scale, t.point)));
  if (c.wants_output(1)) write_statistic(c, 1, t, inverse(t.rows));
  return {};
}

// Per channel (axis 1), with given statistics, or with the batch's own, which then update the running ones.
Status batch_normalization(FormulaContext& c) {
  Buffer x = c.in(0), scale = c.in(1), bias = c.in(2), input_mean = c.in(3), input_variance = c.in(4);
  DType type = compute_type(x.dtype());
  Axes point = c.axes(x.shape());
  bool has_channel = x.rank() > 1;
  auto at_channel = [&](const Buffer& b) {
    return cast(type, b(has_channel ? point[1].expr() : Expr::index(0)));
  };
  Expr mean = at_channel(input_mean), variance = at_channel(input_variance);
  if (c.flag("training_mode")) {
    if (!has_channel) return c.unsupported("training mode needs a channel axis");
    Axes reduced = c.axes(x.shape()), channel{point[1]};
    Index along = replaced(to_index(reduced), 1, point[1]);
    Moments m = moments(c, channel, without(reduced, 1), wide(x(along)));
    double momentum = c.real("momentum");
    auto update = [&](std::size_t output, const Expr& running, const Expr& current) {
      if (c.wants_output(output)) {
        c.write(c.out(output), channel, running * momentum + current * (1 - momentum));
      }
    };
    update(1, mean, m.mean(channel));
    update(2, variance, m.variance(channel));
    mean = m.mean(channel);
    variance = m.variance(channel);
  }
  Expr normal = (wide(x(point)) - mean) * inverse_deviation(variance, c.real("epsilon"));
  c.write(c.out(), point, normal * at_channel(scale) + at_channel(bias));
  return {};
}

Status instance_normalization(FormulaContext& c) {
  Buffer x = c.in(0), scale = c.in(1), bias = c.in(2);
  if (x.rank() < 2) return c.fail("operand 0 (x) must have at least two dimensions, batch and channel");
  TrailingRows t = trailing_rows(c, x.shape(), 2);
  Moments m = moments(c, t.rows, t.reduced, wide(x(t.along)));
  Expr inverse = inverse_deviation(m.variance(t.rows), c.real("epsilon"));
  Expr channel = t.point[1];
  Expr normal = (wide(x(t.point)) - m.mean(t.rows)) * inverse;
  c.write(c.out(), t.point, normal * wide(scale(channel)) + wide(bias(channel)));
  return {};
}

// Channel c = g * (C / G) + m is member m of group g: an axis split in two.
Status group_normalization(FormulaContext& c) {
  Buffer x = c.in(0), scale = c.in(1), bias = c.in(2);
  Dim groups = c.integer("num_groups"), members = floor_div(x.dim(1), groups);
  Axis n = c.axis(x.dim(0), "n"), g = c.axis(groups, "g");
  Shape inner{members};
  inner.insert(inner.end(), x.shape().begin() + 2, x.shape().end());
  auto at = [&](const Axes& member_and_space) {
    Index index = to_index(concat({n, g}, member_and_space));
    index[2] = index[1] * Expr::size(members) + index[2];
    return removed(index, 1);
  };
  Axes reduced = c.axes(inner), point = c.axes(inner);
  Moments m = moments(c, {n, g}, reduced, wide(x(at(reduced))));
  Expr inverse = inverse_deviation(m.variance(n, g), c.real("epsilon"));
  Index store = at(point);
  Expr normal = (wide(x(store)) - m.mean(n, g)) * inverse;
  Expr y = normal * wide(scale(store[1])) + wide(bias(store[1]));
  c.write_at(c.out(), concat({n, g}, point), store, y);
  return {};
}

Status mean_variance_normalization(FormulaContext& c) {
  constexpr double kEpsilon = 1e-9;
  Buffer x = c.in(0);
  std::vector<std::int64_t> given{0, 2, 3};
  if (c.has_attribute("axes")) given = c.integers("axes");
  XYNTRA_TRY(auto axes, c.normalized_axes(given, x.rank()));
  Axes point = c.axes(x.shape()), rows = point, reduced;
  Index along = to_index(point);
  for (std::size_t axis : axes) {
    reduced.push_back(c.axis(x.dim(axis), "k" + std::to_string(axis)));
    along[axis] = reduced.back();
  }
  std::sort(axes.rbegin(), axes.rend());
  for (std::size_t axis : axes) rows = without(rows, axis);
  Moments m = moments(c, rows, reduced, wide(x(along)));
  c.write(c.out(), point, (wide(x(point)) - m.mean(rows)) / (sqrt(m.variance(rows)) + kEpsilon));
  return {};
}

// x / ‖x‖ along one axis; a row of zeros stays zero.
Status lp_normalization(FormulaContext& c) {
  Buffer x = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  std::int64_t p = c.integer("p");
  if (p != 1 && p != 2) return c.fail("p must be 1 or 2, not " + std::to_string(p));
  Axes point = c.axes(x.shape()), rows = without(point, axis);
  Axis k = c.axis(x.dim(axis), "k");
  Expr along = wide(x(replaced(to_index(point), axis, k)));
  Buffer norm = c.reduce("norm", rows, Reducer::Sum, {k}, p == 1 ? abs(along) : along * along,
                         [p](const Expr& total) { return p == 1 ? total : sqrt(total); });
  Expr zero = Expr::number(along.dtype(), 0);
  c.write(c.out(), point, select(te::equal(norm(rows), 0), zero, wide(x(point)) / norm(rows)));
  return {};
}

// y = x / (bias + alpha / size * s)^beta, with s the sum of squares over `size` channels around x's own.
Status local_response_normalization(FormulaContext& c) {
  Buffer x = c.in(0);
  if (x.rank() < 2) return c.fail("operand 0 (x) must have at least two dimensions, batch and channel");
  std::int64_t size = c.integer("size");
  if (size < 1) return c.fail("size must be positive");
  Axes point = c.axes(x.shape());
  Axis k = c.axis(size, "k");
  Expr channel = point[1].expr() + k.expr() - (size - 1) / 2;
  Expr near = wide(x.load_or(Expr::number(x.dtype(), 0), replaced(to_index(point), 1, channel)));
  double factor = static_cast<double>(c.real("alpha")) / static_cast<double>(size);
  double bias = c.real("bias"), beta = c.real("beta");
  c.write_reduced(c.out(), point, Reducer::Sum, {k}, near * near, [&](const Expr& total) {
    Expr base = bias + factor * total;
    return wide(x(point)) / pow(base, Expr::number(base.dtype(), beta));
  });
  return {};
}

}  // namespace formula
}  // namespace xyntra
