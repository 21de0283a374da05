#include "schedule/contraction_roles.h"

#include <algorithm>

#include "schedule/function_parts.h"
#include "te/effort.h"

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
constexpr std::int64_t kFewestSums =
    8;  // vectors under way, below which each product waits for the one before

std::int64_t iterations(const Lowering& lowering, const std::vector<VarId>& loops) {
  std::int64_t product = 1;
  for (VarId loop : loops)
    product *= std::max<std::int64_t>(1, lowering.size(lowering.formula().variable(loop).extent));
  return product;
}

std::int64_t vectors_across(const Lowering& lowering, const ContractionRoles& roles) {
  return lowering.vector_steps(lowering.formula().variable(roles.lane).extent) *
         iterations(lowering, roles.columns);
}

// What one element of the result costs where lanes run along `lane`.
std::int64_t cost_of(const Lowering& lowering, const Stage& stage, const ContractionRoles& roles) {
  const te::Formula& formula = lowering.formula();
  const std::int64_t lanes = lowering.lanes(),
                     count = std::max<std::int64_t>(1, lowering.size(formula.variable(roles.lane).extent)),
                     steps = lowering.vector_steps(formula.variable(roles.lane).extent);
  // Few vectors and rows: products wait for one another, or each has a load of its own.
  const std::int64_t sums = sums_together(lowering, roles);
  std::int64_t products =
      iterations(lowering, stage.reduction) * kCycle * steps * 5 / (4 * kProductsPerCycle * count);
  if (sums < kFewestSums) products = products * kFewestSums / sums;
  if (roles.lane_in_rows) {
    products = products * 8 / 5;  // each loads both of its factors
  } else if (vectors_across(lowering, roles) == 1) {
    products = products * 5 / 4;
  }
  auto access = [&](te::BufferId buffer, std::span<const Expr> index) {
    return lowering.contiguous_in_blocks(buffer, index, roles.lane, lanes) ? kCycle / lanes : kStoreApart;
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

std::int64_t sums_together(const Lowering& lowering, const ContractionRoles& roles) {
  const std::int64_t down = iterations(lowering, roles.rows);
  return std::clamp<std::int64_t>(vectors_across(lowering, roles), 1, 2) *
         std::clamp<std::int64_t>(down, 1, 12);
}

std::int64_t contraction_cycles(const Lowering& lowering, const Stage& stage, const ContractionRoles& roles) {
  __extension__ typedef __int128 Int128;
  Int128 results = 1;
  for (VarId axis : stage.axes)
    results *= std::max<std::int64_t>(0, lowering.size(lowering.formula().variable(axis).extent));
  const Int128 total = results * cost_of(lowering, stage, roles);
  return total > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(total);
}

std::optional<ContractionRoles> contraction_roles(const Lowering& lowering, const Stage& stage) {
  if (stage.kind != Stage::Kind::MapReduce || stage.reducer != te::Reducer::Sum ||
      stage.body->op != ExprOp::Mul || stage.reduction.empty())
    return std::nullopt;
  const te::Formula& formula = lowering.formula();
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
                       lowering.contiguous_in_blocks(node.buffer, te::index_of(node), axis, lowering.lanes());
        });
      };
      look_at(lanes);
      if (in_rows_too) look_at(rows);
      std::int64_t turns = lowering.size(formula.variable(axis).extent);
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
      const std::int64_t cost = cost_of(lowering, stage, roles);
      if (best && cost >= least) continue;
      least = cost;
      best = std::move(roles);
    }
  }
  return best;
}

}  // namespace xyntra
