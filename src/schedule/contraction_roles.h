// The shape of one contraction: who depends on what.
//
//   y[b, m, n] = sum(k) row[b, m, k] * lane[b, k, n]
//
// Lanes of vectors run along n, an axis of the result that one factor is contiguous in; the other factor is broadcast.
#pragma once

#include <optional>
#include <vector>

#include "schedule/lowering.h"

namespace xyntra {

struct ContractionRoles {
  te::Expr row_factor, lane_factor;
  te::VarId lane;
  bool lane_in_rows = false;  // a product of vectors, lane by lane: depthwise
  std::vector<te::VarId> rows, columns, batch;  // output axes but the lane, by which factor depends on them
  std::vector<te::VarId> summed;
};

// Vectors of results that a register tile sums at a time.
std::int64_t sums_together(const Lowering& lowering, const ContractionRoles& roles);

// Of the whole stage, in thousandths, where its operands come from near caches.
std::int64_t contraction_cycles(const Lowering& lowering, const te::Stage& stage,
                                const ContractionRoles& roles);

// Nothing when the stage is no sum of products, or no axis can run in lanes.
std::optional<ContractionRoles> contraction_roles(const Lowering& lowering, const te::Stage& stage);

}  // namespace xyntra
