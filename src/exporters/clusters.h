// Nodes of a graph that belong together, for exporters that can show it: groups of a plan, though exporters know none.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace xyntra {

struct NodeCluster {
  std::string label;
  std::vector<NodeId> nodes;  // in topological order; a node may be in several
  std::vector<ValueId> outputs;  // what others read of it; no other cluster has them
};

}  // namespace xyntra
