// How far results may be from the float64 oracle when the numerical result may change: twice as far as those of the unfused graph,
// plus 4 ulp, and NaN only where it has NaN.
#pragma once

#include <optional>
#include <string>

#include "types/tensor.h"

namespace xyntra::graphs {

struct Measured {
  Tensor reference;  // of the unfused graph
  Tensor oracle;  // in float64
  // The oracle's results when the inputs move by an ulp, this way and that: how ill-conditioned an element is.
  std::vector<Tensor> moved;
};

// Nothing when the result is near enough; else where it is not.
std::optional<std::string> too_far(const Tensor& actual, const Measured& expected);

// The distance between neighbouring numbers of the dtype at this value.
double ulp(DType dtype, double value);

}  // namespace xyntra::graphs
