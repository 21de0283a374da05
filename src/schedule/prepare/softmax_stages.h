// A softmax by its stages: a maximum, exponents of the differences to it, their sum, and what is divided by that.
#pragma once

#include <span>

#include "te/formula.h"

namespace xyntra {

// Whether a stage adds up exponents less their maximum, elements of the buffer: they and their sum are numbers, or the sum is NaN.
bool adds_exponents(const te::Formula& formula, const te::Stage& sum, te::BufferId exponents);

// Elements that are divided by a sum of exponents: multiplied by what one division makes of it.
//   m = max(k) x[k]; s = sum(k) exp(x[k] - m); y[k] = e[k] / s             r = 1 / sum(k) exp(x[k] - m); y[k] = e[k] * r
// The largest exponent is exp(0), so the sum is at least 1 and its inverse no less a number than it is. It rounds once more.
te::Formula multiply_by_inverses(const te::Formula& formula);

// Exponents of a softmax as powers of two, which are shorter to compute.
//   s = sum(k) exp(x[k] - m)                                              s = sum(k) exp2((x[k] - m) log2(e))
// The difference is rounded once more, by as much as it was when it was made.
te::Formula exponents_in_base_two(const te::Formula& formula);

// The maximum that a softmax takes off, without looking for NaNs: a sum of exponents finds them anyway.
//   m = max(k) x[k]; s = sum(k) exp(x[k] - m); y[k] = e[k] / s             m = largest(k) x[k]; the rest the same
te::Formula ignore_nan_in_maxima(const te::Formula& formula);

// Whether these are a maximum m of x; elements exp(x - m); their sum or its inverse; and results made of elements divided by it: so
// that, but for rounding, nothing depends on m. All of f32, and nobody else reads what lies between.
bool divides_exponents(const te::Formula& formula, std::span<const te::Stage> stages);

}  // namespace xyntra
