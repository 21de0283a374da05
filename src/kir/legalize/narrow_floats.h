// Floats that a machine neither converts nor holds.
#pragma once

#include <functional>

#include "kir/kernel.h"

namespace xyntra::kir {

// The kernel without floats of these dtypes, 16 bits at most. Their values are f32 that the dtype can represent; memory holds their codes,
// and registers the values. Every rounding stays where it is.
//   y: f8e5m2; y[i] = f8e5m2(x[i])   to   y: u8; y[i] = u8(… the code, from the bits of x[i] …)
Kernel without_narrow_floats(const Kernel& kernel, const std::function<bool(DType)>& is_lacking);

}  // namespace xyntra::kir
