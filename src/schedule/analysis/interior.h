// Index-set splitting into interior and border: between the ends of a dimension, places that are clamped, mirrored or wrapped there are what they were before: lanes that stay between
// them read one run of elements.
#pragma once

#include <optional>
#include <vector>

#include "schedule/analysis/access_analysis.h"

namespace xyntra {

struct Interior {
  struct Condition {
    te::Expr value;  // linear in the axis
    bool falls;  // along it
  };
  te::Expr body;
  std::vector<Condition> not_negative;  // where all of these are, the body is the one that was given
};

// Nothing where no load has a run of elements by it that it had not before.
std::optional<Interior> interior_of(const AccessAnalysis& analysis, const te::Expr& body, te::VarId axis);

}  // namespace xyntra
