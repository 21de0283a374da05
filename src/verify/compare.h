// Are two results the same? Kinds, dtypes and shapes exactly; floats within a tolerance, NaN only where NaN is
// expected, infinities and integers exactly.
#pragma once

#include <optional>
#include <string>

#include "types/settings.h"
#include "types/tensor.h"

namespace xyntra {

// Nothing when they are the same, else a sentence that says where they are not:
//   f32[2, 3]: 4 of 6 elements differ, the first at [0, 1]: 1.5, expected 2.0
std::optional<std::string> difference(const Datum& actual, const Datum& expected, const Tolerance& tolerance);
std::optional<std::string> difference(const Tensor& actual, const Tensor& expected,
                                      const Tolerance& tolerance);

}  // namespace xyntra
