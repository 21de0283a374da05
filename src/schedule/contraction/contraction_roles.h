// The shape of one contraction: who depends on what.
//
//   y[b, m, n] = sum(k) row[b, m, k] * lane[b, k, n]
//
// Lanes of vectors run along n, an axis of the result that one factor is contiguous in; the other factor is broadcast.
#pragma once

#include <optional>
#include <vector>

#include "schedule/analysis/access_analysis.h"

namespace xyntra {

struct ContractionRoles {
  te::Expr row_factor, lane_factor;
  te::VarId lane;
  bool lane_in_rows = false;  // a product of vectors, lane by lane: depthwise
  std::vector<te::VarId> rows, columns, batch;  // output axes but the lane, by which factor depends on them
  std::vector<te::VarId> summed;
};

// Vectors of results that a register tile sums at a time.
std::int64_t sums_together(const AccessAnalysis& analysis, const ContractionRoles& roles);

// Of the whole stage, in thousandths, where its operands come from near caches.
std::int64_t contraction_cycles(const AccessAnalysis& analysis, const te::Stage& stage,
                                const ContractionRoles& roles);

// Nothing when the stage is no sum of products, or no axis can run in lanes.
std::optional<ContractionRoles> contraction_roles(const AccessAnalysis& analysis, const te::Stage& stage);

// The operand of a stage that is broadcast row by row; undefined when the stage has another form.
te::Expr row_factor_of(const te::Formula& formula, std::size_t stage, const Target& target,
                       const SymbolBindings& nominal);
// Products of vectors, lane by lane: the axis of the lanes, and those that only the other factor depends on.
struct LaneRows {
  te::VarId lane;
  std::vector<te::VarId> rows;
};
std::optional<LaneRows> lane_rows_of(const AccessAnalysis& analysis, const te::Stage& stage);
// The row axes of a stage: those that only the operand that is broadcast depends on.
std::vector<te::VarId> row_axes_of(const AccessAnalysis& analysis, const te::Stage& stage);

}  // namespace xyntra
