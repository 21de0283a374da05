// Concatenations whose parts can be written where they belong, so that putting them together takes no time (memory_needs.h).
#pragma once

#include "fusion/fusion_nodes.h"
#include "target/target.h"

namespace xyntra {

// By the concatenation: the changes of index that its operands come from, which have to be launches of their own then. Every part must
// be one piece of the whole, and is written into one concatenation alone: the first that has it.
std::map<NodeId, std::vector<NodeId>> joined_parts(const FusionNodes& fusion_nodes, const Target& target);

}  // namespace xyntra
