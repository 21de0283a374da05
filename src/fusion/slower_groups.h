// Groups that were a gain before layouts were chosen, and are none with the strides that these leave: their nodes are better
// kept apart. A product with a factor by rows after it has no loop left for full vectors, say.
#pragma once

#include "fusion/groups.h"
#include "schedule/layout/layout_costs.h"

namespace xyntra {

// By the names of their nodes, with the reason: to be given as FusionOptions::apart.
KeptApart slower_groups(const FusionNodes& fusion_nodes, const Grouping& grouping,
                        const std::vector<ValueLayout>& layouts, const Target& target,
                        const FusionOptions& options, DraftCache& cache, LayoutCosts& costs);

}  // namespace xyntra
