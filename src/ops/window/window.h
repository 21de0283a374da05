// A window sliding over the spatial axes of an operand: what convolution, pooling and their relatives share.
#pragma once

#include "ops/formula_context.h"

namespace xyntra {

struct Window {
  Shape kernel;
  std::vector<std::int64_t> strides, dilations;
  Shape pads_begin, pads_end;
  Shape output;  // number of positions along each axis

  std::size_t rank() const { return kernel.size(); }
};

// From the attributes strides, dilations, pads, auto_pad and, when the op has it, ceil_mode.
Result<Window> window_of(const OpContext& c, const Shape& spatial, const Shape& kernel);
// The attribute kernel_shape when given, checked against the weight's sizes.
Result<Shape> kernel_of(const OpContext& c, const Shape& weight_spatial);
// The attribute, or `fallback` repeated; an error when its length is not `count` or an entry is below 1.
Result<std::vector<std::int64_t>> positive_list(const OpContext& c, std::string_view name, std::size_t count);
// Sizes without the leading two (batch and channel); an error for a lower rank.
Result<Shape> spatial_of(const OpContext& c, std::size_t operand);
// A BadModel error when the channels of data x and the filters of weight w cannot be shared by `group` groups.
Status check_groups(const OpContext& c, std::size_t x, std::size_t w);

// Where tap k of the window at o reads: o * stride - pad + k * dilation, per axis.
te::Index window_index(const Window& window, const te::Axes& o, const te::Axes& k);
// Whether every index lies within its axis: 0 <= at < size.
te::Expr within(const te::Index& at, const Shape& sizes);

}  // namespace xyntra
