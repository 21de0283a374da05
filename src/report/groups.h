// A plan for people: its groups as a table, as formulas.
#pragma once

#include "plan/plan.h"

namespace xyntra {

std::string groups_table(const Plan& plan);
Result<std::string> groups_as_formulas(const Plan& plan);

}  // namespace xyntra
