// Transposes and other changes of index that move neighbours apart: read through by everyone who uses the value, or copied
// once by a launch of their own. Reading through is free where lanes still run along the value; elsewhere every reader
// pays for the stride, each time it goes over the value, and many readers or a contraction make the copy the cheaper.
#pragma once

#include "fusion/groups.h"

namespace xyntra {

// One choice for each such value that costs its readers something, in order of value ids. The grouping must have been made with
// all of them read through.
std::vector<LayoutChoice> weigh_relayouts(const FusionNodes& fusion_nodes, const Grouping& grouping,
                                          const Target& target, const FusionOptions& options);

}  // namespace xyntra
