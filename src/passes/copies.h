// Copies of values in another layout, as nodes of the plan's graph: each becomes a launch of its own.
#pragma once

#include "schedule/layout/layouts.h"

namespace xyntra {

// Readers of each value in the groups named read an Identity of it instead. Returns the names of the copies.
std::vector<std::string> insert_copies(Graph& graph, const std::vector<Group>& groups,
                                       const std::vector<LayoutCopy>& copies);

}  // namespace xyntra
