// Module → text: what every node computes, element by element.
#pragma once

#include <string>

#include "ir/graph.h"
#include "support/result.h"

namespace xyntra {

// The formula of each node in order, with the model's own name of the node; host ops and nodes whose shapes are
// known only at run time are named with the reason. Types must be inferred.
Result<std::string> export_formulas(const Module& module);

}  // namespace xyntra
