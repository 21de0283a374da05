// Recipes: how to make the weights that rewriting computed (a convolution's with the batch norm folded in, three
// concatenated projections) from those of the model, so that a lock needs to hold neither.
#pragma once

#include "ir/graph.h"
#include "rewrite/normalize/fold.h"

namespace xyntra {

// A graph without inputs; its outputs bear the names of those constants of `graph` that are long, are not among the
// model's and were folded. Empty when there are none.
Graph recipes_of(const Graph& graph, const Graph& model, const FoldLog& folded);

}  // namespace xyntra
