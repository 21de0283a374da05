// What memory may do with the values of groups: which are bytes of another value, which may be written over an operand.
// Both follow from the groups' formulas.
#pragma once

#include "fusion/layout/extensions.h"
#include "memory/plan_memory.h"

namespace xyntra {

// Groups that turn out to copy nothing get the schedule "view": they are no launch. Results of `extensions` may be
// appended to the rows of the inputs that they extend, in place.
MemoryNeeds memory_needs(const FusionNodes& fusion_nodes, Grouping& grouping,
                         const std::vector<ValueLayout>& layouts, const std::vector<Extension>& extensions,
                         const SymbolBindings& nominal, const Target& target);

}  // namespace xyntra
