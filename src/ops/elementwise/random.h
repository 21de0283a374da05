// Randomness of one node.
#pragma once

#include "ops/op.h"

namespace xyntra {

// The generator's key: the node's seed attribute (0 without) and its name.
std::uint64_t node_key(const OpContext& context);

}  // namespace xyntra
