// Convolutions: y[n, m, o…] = sum(c, k…) x[n, c, o… * stride - pad + k… * dilation] * w[m, c, k…], in groups.
#include <functional>

#include "ops/elementwise/activation.h"
#include "ops/operands.h"
#include "ops/window/window.h"

namespace xyntra {
namespace {

// Where a convolution finds its data and weight among the operands.
struct ConvolutionOperands {
  std::size_t x, w;
};

Result<Window> convolution_window(const OpContext& c, ConvolutionOperands at) {
  XYNTRA_TRY(Shape spatial, spatial_of(c, at.x));
  XYNTRA_TRY(Shape weight_spatial, spatial_of(c, at.w));
  if (weight_spatial.size() != spatial.size()) {
    return c.fail("the weight has rank " + std::to_string(c.rank(at.w)) + ", the data " +
                  std::to_string(c.rank(at.x)));
  }
  XYNTRA_TRY(Shape kernel, kernel_of(c, weight_spatial));
  return window_of(c, spatial, kernel);
}

Status convolution_rule(InferenceContext& c, ConvolutionOperands at) {
  XYNTRA_CHECK_OK(spatial_of(c, at.x));
  XYNTRA_CHECK_OK(spatial_of(c, at.w));
  XYNTRA_CHECK_OK(check_groups(c, at.x, at.w));
  XYNTRA_TRY(Window window, convolution_window(c, at));
  Shape shape{c.dim(at.x, 0), c.dim(at.w, 0)};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace

namespace rule {

Status convolution(InferenceContext& c) { return convolution_rule(c, {0, 1}); }
Status quantized_convolution(InferenceContext& c) { return convolution_rule(c, {0, 3}); }

Status causal_convolution(InferenceContext& c) {
  for (std::size_t i : {0, 1}) {
    if (c.rank(i) != 3) return c.fail("operand " + std::to_string(i) + " must have rank 3");
  }
  c.set_shape(0, c.shape(0));
  if (c.output_count() > 1) c.set_shape(1, {c.dim(0, 0), c.dim(0, 1), c.dim(1, 2) - 1});
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

using Tap = std::function<Expr(const Index&)>;  // an element of data or weight
using Ending = std::function<Expr(Expr sum, const Index& store)>;  // what is made of the sum

Status convolve(FormulaContext& c, ConvolutionOperands at, const Tap& data, const Tap& weight,
                const Ending& ending) {
  XYNTRA_TRY(Window window, convolution_window(c, at));
  Buffer w = c.in(at.w), y = c.out();
  std::int64_t groups = c.integer("group");
  Dim filters = floor_div(w.dim(0), groups);
  Axis n = c.axis(y.dim(0), "n"), group = c.axis(groups, "g"), m = c.axis(filters, "m");
  Axes o = c.axes(window.output);
  Axis channel = c.axis(w.dim(1), "c");
  Axes k = c.axes(window.kernel);
  bool grouped = groups > 1;
  Expr filter = grouped ? group * Expr::size(filters) + m : m.expr();
  Expr source = grouped ? group * Expr::size(w.dim(1)) + channel : channel.expr();
  Index from{n, source}, tap{filter, channel}, store{n, filter};
  for (const Expr& e : window_index(window, o, k)) from.push_back(e);
  for (const Axis& e : k) tap.push_back(e);
  for (const Axis& e : o) store.push_back(e);
  Axes outer = grouped ? Axes{n, group, m} : Axes{n, m};
  c.write_reduced_at(y, concat(outer, o), store, Reducer::Sum, concat({channel}, k), data(from) * weight(tap),
                     [&](Expr sum) { return ending(std::move(sum), store); });
  return {};
}

// Operand i at channel m of the result: a scalar, one element, or one per channel.
Expr per_channel(FormulaContext& c, std::size_t i, const Expr& m) {
  Buffer x = c.in(i);
  return x.rank() == 0 ? x() : x(broadcast_index(x.dim(0), m, c.out_shape()[1]));
}

Status convolve_floats(FormulaContext& c, const std::function<Expr(Expr, const Index&)>& after) {
  Buffer x = c.in(0), w = c.in(1);
  DType type = compute_type(x.dtype());
  auto data = [&](const Index& i) { return cast(type, x.load_or(Expr::number(x.dtype(), 0), i)); };
  auto weight = [&](const Index& i) { return cast(type, w(i)); };
  auto ending = [&](const Expr& sum, const Index& i) {
    Expr biased = c.has_input(2) ? sum + cast(type, c.in(2)(i[1])) : sum;
    return after(biased, i);
  };
  return convolve(c, {0, 1}, data, weight, ending);
}

}  // namespace

Status convolution(FormulaContext& c) {
  return convolve_floats(c, [](Expr sum, const Index&) { return sum; });
}

// Convolution, plus another tensor, through an activation.
Status fused_convolution(FormulaContext& c) {
  std::optional<Activation> activation;
  if (c.has_attribute("activation")) {
    activation = activation_named(c.text("activation"));
    if (!activation) return c.unsupported("activation '" + c.text("activation") + "'");
    std::vector<float> parameters = c.reals("activation_params");
    if (!parameters.empty()) activation->alpha = parameters[0];
    if (parameters.size() > 1) activation->beta = parameters[1];
  }
  return convolve_floats(c, [&](Expr sum, const Index& i) {
    if (c.has_input(3)) sum = sum + cast(sum.dtype(), c.in(3)(i));
    return activation ? (*activation)(sum) : sum;
  });
}

// Integers with zero points: padding stands for the zero point, so it adds nothing.
Status convolution_integer(FormulaContext& c) {
  Buffer x = c.in(0), w = c.in(1);
  auto offset = [&](const Expr& value, std::size_t i, const Expr& m) {
    const Expr wide = cast(DType::I32, value);
    return c.has_input(i) ? wide - cast(DType::I32, per_channel(c, i, m)) : wide;
  };
  auto data = [&](const Index& i) {
    Expr padding = c.has_input(2) ? per_channel(c, 2, Expr::index(0)) : Expr::number(x.dtype(), 0);
    return offset(x.load_or(padding, i), 2, Expr::index(0));
  };
  auto weight = [&](const Index& i) { return offset(w(i), 3, i[0]); };
  return convolve(c, {0, 1}, data, weight, [](Expr sum, const Index&) { return sum; });
}

// (x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias): the sum is exact in i32, then scaled once.
Status convolution_quantized(FormulaContext& c) {
  Buffer x = c.in(0), w = c.in(3);
  Expr first = Expr::index(0), padding = per_channel(c, 2, first);
  auto data = [&](const Index& i) {
    return cast(DType::I32, x.load_or(padding, i)) - cast(DType::I32, padding);
  };
  auto weight = [&](const Index& i) {
    return cast(DType::I32, w(i)) - cast(DType::I32, per_channel(c, 5, i[0]));
  };
  auto ending = [&](const Expr& sum, const Index& i) {
    Expr biased = c.has_input(8) ? sum + c.in(8)(i[1]) : sum;
    Expr scale = per_channel(c, 1, first) * per_channel(c, 4, i[1]) / per_channel(c, 6, first);
    Expr zero = per_channel(c, 7, first);
    Expr rounded = round(cast(DType::F32, biased) * scale) + cast(DType::F32, zero);
    return cast(zero.dtype(), rounded);  // saturates
  };
  return convolve(c, {0, 3}, data, weight, ending);
}

// Each channel with its own kernel over past_state followed by the input; the end of that is the next state.
Status causal_convolution(FormulaContext& c) {
  Buffer x = c.in(0), w = c.in(1);
  const std::string& name = c.text("activation");
  std::optional<Activation> activation;
  if (name != "none") activation = activation_named(name == "swish" ? "silu" : name);
  if (name != "none" && !activation) return c.fail("activation '" + name + "' is not known");
  DType type = compute_type(x.dtype());
  Expr zero = Expr::number(x.dtype(), 0), history = Expr::size(w.dim(2) - 1);
  auto joined = [&](const Expr& n, const Expr& channel, const Expr& position) {
    Expr past = c.has_input(3) ? c.in(3)(n, channel, position) : zero;
    return select(position < history, past, x(n, channel, position - history));
  };
  Axes i = c.axes(x.shape());
  Axis k = c.axis(w.dim(2), "k");
  Expr product = cast(type, joined(i[0], i[1], i[2] + k)) * cast(type, w(i[1], Expr::index(0), k));
  c.write_reduced(c.out(), i, Reducer::Sum, {k}, product, [&](Expr sum) {
    if (c.has_input(2)) sum = sum + cast(type, c.in(2)(i[1]));
    return activation ? (*activation)(sum) : sum;
  });
  if (c.wants_output(1)) {
    Axes s = c.axes(c.out_shape(1));
    c.write(c.out(1), s, joined(s[0], s[1], s[2] + Expr::size(x.dim(2))));
  }
  return {};
}

}  // namespace formula
}  // namespace xyntra
