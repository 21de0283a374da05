// Work for GPUs that has no rows to share out, but is enough for groups of threads: long sums, and the steps of scans.
#include <algorithm>

#include "lower/gpu/contraction/lower_groups.h"
#include "lower/gpu/gpu_forms.h"
#include "lower/gpu/group_stage.h"
#include "lower/gpu/sheltered_loads.h"
#include "lower/nested_loops.h"

namespace xyntra {

using kir::LoopKind;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

GroupStage group_for(Lowering& lowering, const Schedule& schedule) {
  return {lowering, keeps_order(lowering, schedule) ? GroupStage::Sums::InOrder : GroupStage::Sums::Together};
}

// Few results that are long sums.
bool are_long_sums(const GroupStage& group, const Stage& stage, std::int64_t most_results,
                   std::int64_t least_terms) {
  return stage.kind == Stage::Kind::MapReduce && stage.reducer != te::Reducer::None && !group.keeps_order() &&
         group.is_shared_out(stage) && group.elements(stage) <= most_results &&
         group.terms(stage) >= least_terms;
}

constexpr std::int64_t kFewSums = 16384;
// Tiles of so few results would leave most of a GPU idle.
constexpr std::int64_t kFewProducts = 2048, kFewTerms = 96;

}  // namespace

bool is_for_split_sums(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  return are_long_sums(group_for(lowering, schedule), stage, kFewProducts, kFewTerms);
}

Stmt lower_split_sums(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  GroupStage group = group_for(lowering, schedule);
  const bool wanted = lowering.forms().chooses() ? are_long_sums(group, stage, kFewProducts, kFewTerms) ||
                                                       are_long_sums(group, stage, kFewSums, kLongSum)
                                                 : are_long_sums(group, stage, kFewSums, kFewTerms);
  if (!wanted) return {};
  while (group.threads < kMostThreads && group.threads * 2 * kRowLanes <= group.terms(stage))
    group.threads *= 2;
  group.threads = lowering.forms().knob("threads", group.threads);
  std::vector<VarId> grid;
  Substitution bound;
  for (VarId axis : stage.axes) {
    const te::Variable& variable = lowering.formula().variable(axis);
    grid.push_back(lowering.loop(variable.name, variable.extent));
    bound[axis.index] = Expr::variable(grid.back());
  }
  if (grid.empty()) grid.push_back(lowering.loop("g", 1));
  Stmt item = group.around([&] { return group.together(stage, bound); });
  item = in_loops(LoopKind::Grid, grid, std::move(item));
  return shelter_loads(lowering.kernel(), item);
}

// One group: its threads share out what a step makes, and wait for one another after each part of it.
Stmt lower_scan_in_group(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  if (stage.kind != Stage::Kind::Scan) return {};
  const te::Formula& formula = lowering.formula();
  GroupStage group = group_for(lowering, schedule);
  std::int64_t work = 1, elements = 1;  // of the largest part of a step
  for (const Stage& inner : stage.stages) {
    if (inner.kind != Stage::Kind::MapReduce || !group.is_shared_out(inner)) return {};
    elements = std::max(elements, group.elements(inner));
    work = std::max(work, group.elements(inner) * group.terms(inner));
  }
  if (work < kLongSum) return {};
  while (group.threads < kMostThreads && group.threads < elements) group.threads *= 2;
  group.threads = lowering.forms().knob("threads", group.threads);
  const te::Variable& step = formula.variable(stage.step);
  const VarId grid = lowering.loop("g", 1), turn = lowering.loop(step.name, step.extent);
  Stmt item = group.around([&] {
    std::vector<Stmt> body;
    for (const Stage& inner : stage.stages) {
      body.push_back(group.lowered(inner, inner.axes, {{stage.step.index, Expr::variable(turn)}}));
      body.push_back(group.wait());
    }
    for (const te::Carried& carried : stage.carried) {  // what was next is now the state
      const te::BufferInfo& state = formula.buffer(carried.state);
      auto move = [&](const std::vector<Expr>& index, const Expr&) {
        return Stmt::store(lowering.placed(carried.state), index,
                           Expr::load(lowering.placed(carried.next), state.dtype, index));
      };
      body.push_back(state.shape.empty() ? group.by_one_thread(move({}, {}))
                                         : group.shared_out(state.shape, false, move));
      body.push_back(group.wait());
    }
    return Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body)));
  });
  return shelter_loads(lowering.kernel(), Stmt::loop(LoopKind::Grid, grid, item));
}

}  // namespace xyntra
