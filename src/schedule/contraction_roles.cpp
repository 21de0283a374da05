#include "schedule/contraction_roles.h"

#include <algorithm>

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kManyProducts =
    64;  // products, beside which storing the result one by one costs little

}  // namespace

std::optional<ContractionRoles> contraction_roles(const Lowering& lowering, const Stage& stage) {
  if (stage.kind != Stage::Kind::MapReduce || stage.reducer != te::Reducer::Sum ||
      stage.body->op != ExprOp::Mul || stage.reduction.empty())
    return std::nullopt;
  const te::Formula& formula = lowering.formula();
  std::optional<ContractionRoles> best;
  std::int64_t most = 0, summed = 1;
  for (VarId axis : stage.reduction) summed *= lowering.size(formula.variable(axis).extent);
  for (std::size_t side = 0; side < 2; ++side) {
    const Expr &lanes = stage.body->operands[side], &rows = stage.body->operands[1 - side];
    std::set<VarId> of_lanes = te::variables_of(lanes), of_rows = te::variables_of(rows);
    for (VarId axis : stage.axes) {
      bool in_rows_too = of_rows.count(axis) != 0;
      if (!of_lanes.count(axis)) continue;
      bool contiguous = true;
      auto look_at = [&](const Expr& factor) {
        te::for_each_node(factor, [&](const ExprNode& node) {
          if (!te::is_load(node)) return;
          contiguous = contiguous &&
                       lowering.contiguous_in_blocks(node.buffer, te::index_of(node), axis, lowering.lanes());
        });
      };
      look_at(lanes);
      if (in_rows_too) look_at(rows);
      std::int64_t turns = lowering.size(formula.variable(axis).extent);
      if (!contiguous || turns < 4) continue;
      auto stored = lowering.stride(stage.target, stage.store, axis);
      // Results that lie apart are stored one by one, which counts where sums are short.
      const std::int64_t apart = summed < kManyProducts ? 2 : 6;
      std::int64_t score = std::min(turns, lowering.lanes()) * (stored && stored->is(1) ? 8 : apart);
      if (in_rows_too) score = score / 2;
      ContractionRoles roles{rows, lanes, axis, in_rows_too, {}, {}, {}, stage.reduction};
      for (VarId other : stage.axes) {
        if (other == axis) continue;
        bool in_lanes = of_lanes.count(other) != 0, in_rows = of_rows.count(other) != 0;
        (in_rows && !in_lanes   ? roles.rows
         : in_lanes && !in_rows ? roles.columns
                                : roles.batch)
            .push_back(other);
      }
      if (in_rows_too && roles.rows.empty()) continue;
      if (score <= most) continue;
      most = score;
      best = std::move(roles);
    }
  }
  return best;
}

}  // namespace xyntra
