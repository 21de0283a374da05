#include "schedule/contraction/contraction_roles.h"

#include <algorithm>

#include "schedule/prepare/function_parts.h"
#include "te/cost/effort.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Stage;
using te::VarId;

namespace {

// Thousandths of a cycle.
constexpr std::int64_t kCycle = 1000;
constexpr std::int64_t kStoreApart =
    2 * kCycle;  // an element is taken out of its vector and stored by itself
constexpr std::int64_t kProductsPerCycle = 2;  // vectors; tiles reach four fifths of it
constexpr std::int64_t kFunction = 32;  // effort of an epilogue that goes over the tile in memory;
constexpr std::int64_t kPerTile =
    12;  // a part of it is added by what every tile begins anew: constants, chains

std::int64_t iterations(const AccessAnalysis& analysis, const std::vector<VarId>& loops) {
  std::int64_t product = 1;
  for (VarId loop : loops)
    product *= std::max<std::int64_t>(1, analysis.size(analysis.formula().variable(loop).extent));
  return product;
}

std::int64_t vectors_across(const AccessAnalysis& analysis, const ContractionRoles& roles) {
  return analysis.vector_steps(analysis.formula().variable(roles.lane).extent) *
         iterations(analysis, roles.columns);
}

// Vectors and rows of a register tile (contraction_tiling.h): rows are those of one axis.
std::int64_t tile_vectors(const AccessAnalysis& analysis, const ContractionRoles& roles) {
  if (analysis.vector_steps(analysis.formula().variable(roles.lane).extent) > 1) return 2;
  const bool even = std::ranges::any_of(roles.columns, [&](VarId axis) {
    const Dim& extent = analysis.formula().variable(axis).extent;
    return extent.is_constant() && extent.constant() > 0 && extent.constant() % 2 == 0;
  });
  return even ? 2 : 1;
}

std::int64_t tile_height(const AccessAnalysis& analysis, const ContractionRoles& roles) {
  constexpr std::int64_t kMost = 12;
  std::int64_t longest = 1;
  for (VarId axis : roles.rows)
    longest = std::max(longest, analysis.size(analysis.formula().variable(axis).extent));
  return std::min(longest, kMost);
}

// What one element of the result costs where lanes run along `lane`.
std::int64_t cost_of(const AccessAnalysis& analysis, const Stage& stage, const ContractionRoles& roles) {
  const te::Formula& formula = analysis.formula();
  const std::int64_t lanes = analysis.lanes(),
                     count = std::max<std::int64_t>(1, analysis.size(formula.variable(roles.lane).extent)),
                     steps = analysis.vector_steps(formula.variable(roles.lane).extent);
  const std::int64_t sums = sums_together(analysis, roles), across = tile_vectors(analysis, roles),
                     down = sums / across;
  std::int64_t products =
      iterations(analysis, stage.reduction) * kCycle * steps * 5 / (4 * kProductsPerCycle * count);
  // A tile loads its lines and broadcasts its rows: with few of either there are more loads than products.
  products = products * std::max(sums, across + down) / sums;
  if (roles.lane_in_rows) {
    products = products * 8 / 5;  // each loads both of its factors
  } else if (vectors_across(analysis, roles) == 1) {
    products = products * 5 / 4;
  }
  auto access = [&](te::BufferId buffer, std::span<const Expr> index) {
    return analysis.contiguous_in_blocks(buffer, index, roles.lane, lanes) ? kCycle / lanes : kStoreApart;
  };
  std::int64_t finish = access(stage.target, stage.store);
  if (stage.finish.defined()) {
    const std::int64_t effort = te::effort_of(stage.finish) * kCycle / 4 * steps / count;
    const bool function = functions_in(stage.finish) && te::effort_of(stage.finish) >= kFunction;
    finish += function && sums <= 2 ? effort * 3 / 2 : effort;  // one or two chains wait for themselves
    if (function) finish += effort / kPerTile;
    te::for_each_node(stage.finish, [&](const ExprNode& node) {
      if (te::is_load(node)) finish += access(node.buffer, te::index_of(node));
    });
  }
  return products + finish;
}

}  // namespace

std::int64_t sums_together(const AccessAnalysis& analysis, const ContractionRoles& roles) {
  return tile_vectors(analysis, roles) * tile_height(analysis, roles);
}

std::int64_t contraction_cycles(const AccessAnalysis& analysis, const Stage& stage,
                                const ContractionRoles& roles) {
  __extension__ typedef __int128 Int128;
  Int128 results = 1;
  for (VarId axis : stage.axes)
    results *= std::max<std::int64_t>(0, analysis.size(analysis.formula().variable(axis).extent));
  const Int128 total = results * cost_of(analysis, stage, roles);
  return total > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(total);
}

std::optional<ContractionRoles> contraction_roles(const AccessAnalysis& analysis, const Stage& stage) {
  if (stage.kind != Stage::Kind::MapReduce || stage.reducer != te::Reducer::Sum ||
      stage.body->op != ExprOp::Mul || stage.reduction.empty())
    return std::nullopt;
  const te::Formula& formula = analysis.formula();
  std::optional<ContractionRoles> best;
  std::int64_t least = 0;
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
                       analysis.contiguous_in_blocks(node.buffer, te::index_of(node), axis, analysis.lanes());
        });
      };
      look_at(lanes);
      if (in_rows_too) look_at(rows);
      std::int64_t turns = analysis.size(formula.variable(axis).extent);
      if (!contiguous || turns < 4) continue;
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
      const std::int64_t cost = cost_of(analysis, stage, roles);
      if (best && cost >= least) continue;
      least = cost;
      best = std::move(roles);
    }
  }
  return best;
}

Expr row_factor_of(const te::Formula& formula, std::size_t stage, const Target& target,
                   const SymbolBindings& nominal) {
  auto roles = contraction_roles(AccessAnalysis(formula, target, nominal), formula.stages[stage]);
  return roles && !roles->lane_in_rows ? roles->row_factor : Expr();
}

std::optional<LaneRows> lane_rows_of(const AccessAnalysis& analysis, const Stage& stage) {
  auto roles = contraction_roles(analysis, stage);
  if (!roles || !roles->lane_in_rows) return std::nullopt;
  return LaneRows{roles->lane, roles->rows};
}

std::vector<VarId> row_axes_of(const AccessAnalysis& analysis, const Stage& stage) {
  auto roles = contraction_roles(analysis, stage);
  return roles && !roles->lane_in_rows ? roles->rows : std::vector<VarId>();
}

}  // namespace xyntra
