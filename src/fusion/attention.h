// Where attention may be: a contraction whose result is normalised along an axis and then contracted again.
// Any scale, mask, bias or soft cap between them belongs to it, however it is spelt; whether it really is
// attention the schedule decides, from the composed formula.
#pragma once

#include "fusion/fusion_nodes.h"

namespace xyntra {

struct AttentionNodes {
  NodeId scores, weighted;
  std::vector<NodeId> nodes;  // all that lies on a way from one to the other, both included
};

std::vector<AttentionNodes> find_attention(const FusionNodes& fusion_nodes);

}  // namespace xyntra
