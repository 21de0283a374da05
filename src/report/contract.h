// Whether a plan keeps to its contract, and if not, what breaks it.
#pragma once

#include "report/figures.h"
#include "types/settings.h"

namespace xyntra {

// One sentence for each part that is broken: by how much, and through which group. Empty: it is kept.
std::vector<std::string> broken_parts(const ContractSettings& contract, const Plan& plan,
                                      const PlanFigures& figures);

}  // namespace xyntra
