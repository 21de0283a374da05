#include "lower/lower_by_stages.h"

#include "lower/lower_stage.h"
#include "lower/nested_loops.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

Stmt in_steps(Lowering& lowering, const Recurrence& recurrence, std::vector<VarId> grid,
              const StepsOf& steps) {
  if (grid.empty()) grid.push_back(lowering.loop("g", 1));
  const te::Variable& time = lowering.formula().variable(recurrence.time);
  const VarId turn = lowering.loop(time.name, time.extent);
  std::vector<Stmt> made = steps(Recurrence::Part::Before, {});
  made.push_back(
      Stmt::loop(LoopKind::Serial, turn, Stmt::block(steps(Recurrence::Part::Step, Expr::variable(turn)))));
  for (Stmt& one : steps(Recurrence::Part::After, {})) made.push_back(std::move(one));
  return in_loops(LoopKind::Grid, grid, Stmt::block(std::move(made)));
}

Stmt lower_scan(Lowering& lowering, const Stage& stage, bool keep_order) {
  lowering.forms().take(Form::Recurrence);
  const te::Variable& step = lowering.formula().variable(stage.step);
  VarId turn = lowering.loop(step.name, step.extent);
  Substitution bound{{stage.step.index, Expr::variable(turn)}};
  std::vector<Stmt> body;
  for (const Stage& inner : stage.stages)
    body.push_back(StageLowering(lowering, inner, inner.axes, keep_order).serial(bound));
  for (const te::Carried& carried : stage.carried) {  // what was next is now the state
    const te::BufferInfo& state = lowering.formula().buffer(carried.state);
    std::vector<VarId> loops;
    std::vector<Expr> index;
    for (const Dim& extent : state.shape) {
      loops.push_back(lowering.loop("c", extent));
      index.push_back(Expr::variable(loops.back()));
    }
    Stmt move = Stmt::store(lowering.placed(carried.state), index,
                            Expr::load(lowering.placed(carried.next), state.dtype, index));
    move = in_loops(LoopKind::Serial, loops, std::move(move));
    body.push_back(move);
  }
  return Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body)));
}

std::vector<Stmt> lower_loops(Lowering& lowering, const Stage& stage, bool keep_order) {
  lowering.forms().take(Form::Loops);
  return StageLowering(lowering, stage, stage.axes, keep_order).phases();
}

Stmt lower_stages(Lowering& lowering, const Schedule& schedule) {
  lowering.place_temporaries(Scope::Workspace);
  const bool keep_order = schedule.exactness == Exactness::Exact;
  std::vector<Stmt> phases;
  for (const Stage& stage : lowering.formula().stages) {
    if (stage.kind == Stage::Kind::Scan) {
      phases.push_back(lower_scan(lowering, stage, keep_order));
      continue;
    }
    std::vector<Stmt> made = lower_loops(lowering, stage, keep_order);
    phases.insert(phases.end(), made.begin(), made.end());
  }
  return Stmt::block(std::move(phases));
}

}  // namespace xyntra
