// A softmax by its stages, where the number that exponents are made small with may be another than the maximum.
#pragma once

#include <span>

#include "te/formula.h"

namespace xyntra {

// Whether these are a maximum m; elements exp(x - m), in any base; their sum or its inverse; and results made of elements divided by
// it: so that, but for rounding, nothing depends on m. All of f32, and nobody else reads what lies between.
bool divides_exponents(const te::Formula& formula, std::span<const te::Stage> stages);

}  // namespace xyntra
