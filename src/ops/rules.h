// Pieces of shape rules.
#pragma once

#include "ops/op.h"

namespace xyntra {

Result<Dim> broadcast_dims(const OpContext& context, const Dim& a, const Dim& b);
Result<Shape> broadcast_shapes(const OpContext& context, const Shape& a, const Shape& b);  // numpy's rule

}  // namespace xyntra
