// Module → DOT, for graphviz: `dot -Tsvg model.dot`.
#pragma once

#include <string>

#include "exporters/clusters.h"

namespace xyntra {

// Each cluster is a box around its nodes; a node of several is drawn in the first.
std::string export_dot(const Module& module, const std::vector<NodeCluster>& clusters = {});

}  // namespace xyntra
