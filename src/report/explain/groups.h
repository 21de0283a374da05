// A plan's groups in the forms that other programs show: as formulas, as clusters of nodes.
#pragma once

#include "exporters/clusters.h"
#include "plan/plan.h"

namespace xyntra {

Result<std::string> groups_as_formulas(const Plan& plan);

// One for each group; `kernels_only` leaves out what runs on the host.
std::vector<NodeCluster> clusters_of(const Plan& plan, bool kernels_only);
// "group 3", "groups 3, 4" for each node of the plan's graph; empty where none computes it.
std::vector<std::string> group_comments(const Plan& plan);

}  // namespace xyntra
