// Prepacked weights: constants that lie in memory otherwise than the graph has them, as the schedule of the group that reads them wants:
// weights of Winograd convolutions (schedule/convolution/winograd.h), and of split-float GEMMs (schedule/contraction/part_products.h).
#pragma once

#include <functional>
#include <map>

#include "fusion/groups.h"
#include "types/tensor.h"

namespace xyntra {

// Weights that may lie so: constants that one group reads, and nobody else sees.
bool are_its_own(const Graph& graph, const std::vector<Group>& groups, ValueId weights);

// What is made of each of them, before any layout. BadModel error where others read one, too.
using PrepackedWeights = std::map<ValueId, std::function<Result<Tensor>(const Tensor&)>>;
Result<PrepackedWeights> prepacked_weights(const FusionNodes& fusion_nodes, const std::vector<Group>& groups);

}  // namespace xyntra
