// Products on GPUs that no tile takes as their group reads them, through changes of index: a launch that writes the operand out
// costs microseconds, a product of plain loops hundreds.
#pragma once

#include <map>
#include <string>

#include "fusion/groups.h"
#include "plan/plan.h"

namespace xyntra {

// Values to be made by a launch of their own, and why; nothing where tiles take all that they would take by itself.
Result<std::map<std::string, std::string>> copies_for_tiles(const Plan& plan, const FusionNodes& fusion_nodes,
                                                            const Target& target,
                                                            const FusionOptions& options);

}  // namespace xyntra
