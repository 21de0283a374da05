// The part of an axis that Slice takes, as symbolic integers.
#pragma once

#include <optional>

#include "types/dim.h"

namespace xyntra {

struct AxisSlice {
  Dim start, step, length;
};

// Python's x[start:end:step] over `extent` elements. Nullopt when the step, or the sign of a symbolic bound,
// is known only at run time.
std::optional<AxisSlice> resolve_slice(const Dim& extent, const Dim& start, const Dim& end, const Dim& step);

}  // namespace xyntra
