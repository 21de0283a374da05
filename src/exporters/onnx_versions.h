// Which opset a file must import so that its operators mean what they mean here.
#pragma once

#include "ir/graph.h"

namespace xyntra {

// From this one on, changes of operators only added: operators, dtypes, optional operands and attributes.
inline constexpr int kLowestExportedOpset = 21;

// The lowest opset of the main domain that has all of the graph's operators, operands, attributes and dtypes.
int lowest_opset(const Graph& graph);
int ir_version_of(int opset);

}  // namespace xyntra
