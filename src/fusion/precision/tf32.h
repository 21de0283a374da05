// Which groups multiply f32 as tf32 (schedule/contraction/warp_units.h).
#pragma once

#include "fusion/groups.h"

namespace xyntra {

// Groups around a GEMM of f32 that matrix units take.
void take_tf32(const Graph& graph, Grouping& grouping, const Target& target, const ChooseOptions& options);

}  // namespace xyntra
