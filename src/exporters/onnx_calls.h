// The order of an ONNX graph in which clusters of nodes are calls of functions.
//
// A cluster's function takes whatever its nodes read and do not compute themselves. What no cluster puts out (shape
// arithmetic, host operations, or a value inside a cluster that somebody else asks the shape of) is computed by plain
// nodes beside the calls, copied there where need be.
#pragma once

#include "exporters/clusters.h"
#include "support/result.h"

namespace xyntra {

struct OnnxCall {
  std::size_t cluster = 0;  // when `node` is invalid
  NodeId node;
};

// Producers before consumers; what nobody needs is left out. Unsupported error when clusters need one another.
Result<std::vector<OnnxCall>> order_calls(const Graph& graph, const std::vector<NodeCluster>& clusters);

// What a cluster reads and does not compute, each once, in order of use.
std::vector<ValueId> operands_of(const Graph& graph, const NodeCluster& cluster);

}  // namespace xyntra
