// Pieces of quantized arithmetic: real = (q - zero_point) * scale.
#pragma once

#include "ops/formula_context.h"

namespace xyntra {

// (q - zero_point) in i32 (in f32 for small floats); zero_point may be absent.
te::Expr offset_removed(const te::Expr& q, const te::Expr& zero_point);
// The real number that q stands for, in `type`.
te::Expr dequantized(DType type, const te::Expr& q, const te::Expr& scale, const te::Expr& zero_point);
// round(ratio) + zero_point, saturated to `to`; small floats round as a conversion does. ratio is x / scale.
te::Expr quantized(DType to, const te::Expr& ratio, const te::Expr& zero_point, bool saturate = true);

// Where a scale or zero point varies: nowhere, along one axis, or in blocks of an axis.
struct Granularity {
  bool single = true;
  std::size_t axis = 0;
  Dim extent;  // of the axis
  std::int64_t block_size = 0;
};
Result<Granularity> granularity(const OpContext& context, std::size_t scale_operand);
// The parameter (scale or zero point) for element `point` of the tensor.
te::Expr parameter_at(const te::Buffer& parameter, const te::Index& point, const Granularity& granularity);
// The one element of a parameter that must have just one.
te::Expr scalar_parameter(const te::Buffer& parameter);

// The u8 scale and zero point that cover an f32 tensor's range and zero.
struct DynamicQuantization {
  te::Buffer scale;
  te::Buffer zero_point;
};
DynamicQuantization dynamic_quantization(FormulaContext& c, const te::Buffer& x);

}  // namespace xyntra
