// Pieces of shape rules.
#pragma once

#include "ops/op.h"

namespace xyntra {

// The dtype that an attribute names by its ONNX code.
Result<DType> dtype_attribute(const OpContext& context, std::string_view name, bool strings = false);

// Whether a known element can be one of a tensor of this dtype; symbolic ones are sizes, and fit.
bool fits(DType dtype, const Dim& element);
bool is_exact(const Dim& element);  // within what sizes count; they saturate beyond

Result<Dim> broadcast_dims(const OpContext& context, const Dim& a, const Dim& b);
Result<Shape> broadcast_shapes(const OpContext& context, const Shape& a, const Shape& b);  // numpy's rule

}  // namespace xyntra
