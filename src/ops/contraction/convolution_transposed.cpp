// ConvTranspose, DeformConv and Col2Im: convolution's relatives with other index maps.
#include <cmath>

#include "ops/operand_shapes.h"
#include "ops/operands.h"
#include "ops/window/window.h"

namespace xyntra {
namespace {

// Of the *output*: the window slides over it, the input counts its positions.
Result<Window> transposed_window(const OpContext& c) {
  XYNTRA_TRY(Shape spatial, spatial_of(c, 0));
  XYNTRA_TRY(Shape weight_spatial, spatial_of(c, 1));
  std::size_t rank = spatial.size();
  if (weight_spatial.size() != rank) return c.fail("data and weight differ in rank");
  Window window;
  XYNTRA_TRY(window.kernel, kernel_of(c, weight_spatial));
  XYNTRA_TRY(window.strides, positive_list(c, "strides", rank));
  XYNTRA_TRY(window.dilations, positive_list(c, "dilations", rank));
  std::vector<std::int64_t> extra = c.integers("output_padding"), pads = c.integers("pads");
  std::vector<std::int64_t> wanted = c.integers("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  extra.resize(rank, 0);
  const std::string& auto_pad = c.text("auto_pad");
  if (!pads.empty() && pads.size() != 2 * rank) return c.fail("pads does not fit the spatial axes");
  if (!wanted.empty() && wanted.size() != rank) return c.fail("output_shape does not fit the spatial axes");
  for (std::size_t d = 0; d < rank; ++d) {
    Dim stride = window.strides[d];
    Dim reach = Dim(window.dilations[d]) * (window.kernel[d] - 1) + 1 + extra[d];
    Dim full = (spatial[d] - 1) * stride + reach;
    bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (!wanted.empty() || same) {
      // `spatial * stride`, unless the kernel is shorter than the stride: then nothing is padded.
      Dim size = wanted.empty() ? (spatial[d] - 1) * stride + min(stride, reach) : Dim(wanted[d]);
      Dim total = max(full - size, 0), half = floor_div(total, 2);
      window.pads_begin.push_back(auto_pad == "SAME_UPPER" ? half : total - half);
      window.output.push_back(size);
    } else {
      window.pads_begin.push_back(pads.empty() ? 0 : pads[d]);
      window.output.push_back(full - (pads.empty() ? Dim(0) : Dim(pads[d] + pads[d + rank])));
    }
    if (window.output[d].is_constant() && window.output[d].constant() < 0) {
      return c.fail("pads take more than there is along spatial axis " + std::to_string(d));
    }
  }
  return window;
}

Result<Window> deformed_window(const OpContext& c) {
  XYNTRA_TRY(Shape spatial, spatial_of(c, 0));
  XYNTRA_TRY(Shape weight_spatial, spatial_of(c, 1));
  if (spatial.size() != 2) return c.unsupported("other than 2 spatial axes");
  XYNTRA_TRY(Shape kernel, kernel_of(c, weight_spatial));
  return window_of(c, spatial, kernel);
}

}  // namespace

namespace rule {

Status convolution_transposed(InferenceContext& c) {
  XYNTRA_TRY(Window window, transposed_window(c));
  std::int64_t groups = c.integer("group");
  if (groups < 1) return c.fail("group is " + std::to_string(groups));
  const Dim &channels = c.dim(0, 1), &expected = c.dim(1, 0);
  if (channels.is_constant() && expected.is_constant() && !(channels == expected)) {
    return c.fail("the data has " + channels.to_string() + " channels, the weight expects " +
                  expected.to_string());
  }
  if (channels.is_constant() && channels.constant() % groups != 0) {
    return c.fail(channels.to_string() + " channels cannot be shared by " + std::to_string(groups) +
                  " groups");
  }
  Shape shape{c.dim(0, 0), c.dim(1, 1) * groups};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  c.set_shape(0, std::move(shape));
  return {};
}

Status convolution_deformed(InferenceContext& c) {
  XYNTRA_TRY(Window window, deformed_window(c));
  XYNTRA_CHECK_OK(check_groups(c, 0, 1));
  std::int64_t offset_groups = c.integer("offset_group");
  if (offset_groups < 1) return c.fail("offset_group is " + std::to_string(offset_groups));
  XYNTRA_CHECK_OK(require_multiple(c, c.dim(0, 1), offset_groups, "the number of channels"));
  const Dim &batch = c.dim(0, 0), &filters = c.dim(1, 0), &height = window.output[0],
            &width = window.output[1];
  Dim taps = product(window.kernel) * offset_groups;
  XYNTRA_CHECK_OK(require_shape(c, 2, {batch, taps * 2, height, width}));
  XYNTRA_CHECK_OK(require_shape(c, 3, {filters}));
  XYNTRA_CHECK_OK(require_shape(c, 4, {batch, taps, height, width}));
  c.set_shape(0, {batch, filters, height, width});
  return {};
}

Status columns_to_image(InferenceContext& c) {
  auto image = c.elements(1);
  auto block = c.elements(2);
  if (c.rank(0) != 3) return c.fail("operand 0 must have rank 3, not " + std::to_string(c.rank(0)));
  auto rank = list_length(c, 1);
  if (!rank) return {};
  if (block) {
    for (const Dim& size : *block) {
      if (size.is_constant() && size.constant() < 1)
        return c.fail("block_shape has the entry " + size.to_string());
    }
    Dim taps = product(*block);
    if (taps.is_constant())
      XYNTRA_CHECK_OK(require_multiple(c, c.dim(0, 1), taps.constant(), "the number of rows"));
  }
  if (image && block) {
    XYNTRA_TRY(Window window, window_of(c, *image, *block));
    XYNTRA_CHECK_OK(require_shape(c, 0, {c.dim(0, 0), c.dim(0, 1), product(window.output)}));
  }
  Shape shape{c.dim(0, 0), block ? floor_div(c.dim(0, 1), product(*block)) : c.unknown_dim(0, 1)};
  for (std::size_t d = 0; d < *rank; ++d) shape.push_back(image ? (*image)[d] : c.unknown_dim(0, d + 2));
  c.set_shape(0, std::move(shape));
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

// A constant without infinities and NaN.
bool is_known_finite(const FormulaContext& c, std::size_t operand) {
  const Tensor* known = c.constant(operand);
  if (known == nullptr) return false;
  for (std::int64_t i = 0; i < known->count(); ++i) {
    if (!std::isfinite(known->element_as_f64(i))) return false;
  }
  return true;
}

}  // namespace

// Each output gathers what a transposed convolution would scatter: tap k reaches output o from the input
// position (o + pad - k * dilation) / stride, where that is whole and inside.
Status convolution_transposed(FormulaContext& c) {
  XYNTRA_TRY(Window window, transposed_window(c));
  XYNTRA_TRY(Shape spatial, spatial_of(c, 0));
  Buffer x = c.in(0), w = c.in(1), y = c.out();
  DType type = compute_type(x.dtype());
  std::int64_t groups = c.integer("group");
  Dim channels = floor_div(x.dim(1), groups);
  Axis n = c.axis(x.dim(0), "n"), group = c.axis(groups, "g"), m = c.axis(w.dim(1), "m");
  Axes o = c.axes(window.output);
  Axis channel = c.axis(channels, "c");
  Axes k = c.axes(window.kernel);
  Expr source = group * Expr::size(channels) + channel, filter = group * Expr::size(w.dim(1)) + m;
  Index from{n, source}, tap{source, m}, store{n, filter};
  Expr whole = Expr::boolean(true);
  for (std::size_t d = 0; d < window.rank(); ++d) {
    Expr reached = o[d] + Expr::size(window.pads_begin[d]) - k[d] * window.dilations[d];
    std::int64_t stride = window.strides[d];
    from.push_back(floor_div(reached, stride));
    if (stride > 1) whole = whole & equal(mod(reached, stride), 0);
    tap.push_back(k[d]);
    store.push_back(o[d]);
  }
  Expr zero = Expr::number(x.dtype(), 0);
  Expr term = cast(type, select(whole, x.load_or(zero, from), zero)) * cast(type, w(tap));
  if (!is_known_finite(c, 1)) {  // 0 times such a weight is not 0: what is not reached is left out
    const Index place(from.begin() + 2, from.end());
    term = select(whole & within(place, spatial), term, Expr::number(type, 0));
  }
  c.write_reduced_at(
      y, concat({n, group, m}, o), store, Reducer::Sum, concat({channel}, k), term,
      [&](const Expr& sum) { return c.has_input(2) ? sum + cast(type, c.in(2)(filter)) : sum; });
  return {};
}

// Taps read between elements, at positions moved by `offset` and weighed by `mask`; then as convolution.
Status convolution_deformed(FormulaContext& c) {
  XYNTRA_TRY(Window window, deformed_window(c));
  Buffer x = c.in(0), w = c.in(1), offset = c.in(2), y = c.out();
  DType type = compute_type(x.dtype());
  std::int64_t groups = c.integer("group"), offset_groups = c.integer("offset_group");
  Dim kernel_height = window.kernel[0], kernel_width = window.kernel[1];
  Buffer sampled =
      c.temporary("sampled", type, {x.dim(0), x.dim(1), kernel_height, kernel_width, y.dim(2), y.dim(3)});
  {
    Dim channels = floor_div(x.dim(1), offset_groups);
    Axis n = c.axis(x.dim(0), "n"), group = c.axis(offset_groups, "g"), channel = c.axis(channels, "c");
    Axes k = c.axes(window.kernel), o = c.axes(window.output);
    Index base = window_index(window, o, k);
    Expr tap = row_major({group, k[0], k[1]}, {offset_groups, kernel_height, kernel_width});
    auto position = [&](std::size_t d) {
      Expr moved = offset(n, tap * 2 + Expr::index(static_cast<std::int64_t>(d)), o[0], o[1]);
      return cast(type, base[d]) + cast(type, moved);
    };
    Expr from = group * Expr::size(channels) + channel, h = position(0), v = position(1);
    Expr top = floor(h), left = floor(v), zero = Expr::number(x.dtype(), 0), one = Expr::number(type, 1);
    auto corner = [&](int down, int right) {
      Expr weight = (down != 0 ? h - top : one - (h - top)) * (right != 0 ? v - left : one - (v - left));
      Index at{n, from, as_index(top) + down, as_index(left) + right};
      return weight * cast(type, x.load_or(zero, at));
    };
    Expr value = corner(0, 0) + corner(0, 1) + corner(1, 0) + corner(1, 1);
    if (c.has_input(4)) value = value * cast(type, c.in(4)(n, tap, o[0], o[1]));
    c.write_at(sampled, concat({n, group, channel}, concat(k, o)), {n, from, k[0], k[1], o[0], o[1]}, value);
  }
  Dim filters = floor_div(w.dim(0), groups);
  Axis n = c.axis(y.dim(0), "n"), group = c.axis(groups, "g"), m = c.axis(filters, "m"),
       channel = c.axis(w.dim(1), "c");
  Axes k = c.axes(window.kernel), o = c.axes(window.output);
  Expr filter = group * Expr::size(filters) + m, from = group * Expr::size(w.dim(1)) + channel;
  c.write_reduced_at(
      y, concat({n, group, m}, o), {n, filter, o[0], o[1]}, Reducer::Sum, concat({channel}, k),
      sampled(n, from, k[0], k[1], o[0], o[1]) * cast(type, w(filter, channel, k[0], k[1])),
      [&](const Expr& sum) { return c.has_input(3) ? sum + cast(type, c.in(3)(filter)) : sum; });
  return {};
}

// Columns added back to the places that a sliding window took them from.
Status columns_to_image(FormulaContext& c) {
  Buffer x = c.in(0), y = c.out();
  auto image = c.elements(1), block = c.elements(2);
  if (!image || !block) return c.unsupported("image_shape and block_shape that are not known");
  XYNTRA_TRY(Window window, window_of(c, *image, *block));
  Axes start = c.axes(y.shape());
  c.write(y, start, Expr::number(y.dtype(), 0));
  Axis n = c.axis(y.dim(0), "n"), channel = c.axis(y.dim(1), "c");
  Axes k = c.axes(window.kernel), o = c.axes(window.output);
  Expr row = channel * Expr::size(product(*block)) + row_major(to_index(k), *block);
  Index to{n, channel}, at = window_index(window, o, k);
  to.insert(to.end(), at.begin(), at.end());
  c.scatter(y, concat({n, channel}, concat(k, o)), to, Combiner::Add,
            x(n, row, row_major(to_index(o), window.output)), within(at, *image));
  return {};
}

}  // namespace formula
}  // namespace xyntra
