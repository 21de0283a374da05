// Constants that lie in memory otherwise than the graph has them, because the schedule of the group that reads them wants it so: weights of
// windows by Winograd (schedule/winograd.h), and those of products of parts (schedule/part_products.h).
#pragma once

#include <functional>
#include <map>

#include "fusion/groups.h"
#include "types/tensor.h"

namespace xyntra {

// Weights that may lie so: constants that one group reads, and nobody else sees.
bool are_its_own(const Graph& graph, const std::vector<Group>& groups, ValueId weights);

// What is made of each of them, before any layout. BadModel error where others read one, too.
using ReadyConstants = std::map<ValueId, std::function<Result<Tensor>(const Tensor&)>>;
Result<ReadyConstants> ready_constants(const FusionNodes& fusion_nodes, const std::vector<Group>& groups);

}  // namespace xyntra
