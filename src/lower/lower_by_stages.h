// Stages one after another, each a phase of its own: the form that takes every formula.
#pragma once

#include "lower/lower.h"
#include "lower/lowering.h"
#include "plan/plan.h"
#include "schedule/recurrence.h"

namespace xyntra {

// A kernel to make: what of, how, and what is noted on the way.
struct KernelRequest {
  const te::Formula& formula;
  const Schedule& schedule;
  const Target& target;
  const SymbolBindings& nominal;
  const std::string& name;
  std::int64_t subgroup_lanes = 0;
  Forms& forms;
  std::vector<RefusedForm>& refused;

  bool keeps_order() const { return schedule.exactness == Exactness::Exact; }
  Lowering lowering(const te::Formula& of) const { return {of, target, nominal, name, &forms}; }
  void refuse(std::string_view form, const std::string& reason) const {
    refused.push_back({name, std::string(form), reason});
  }
};

// A scan in each work item of a grid: what comes before its steps, the steps in order, what comes after them.
using StepsOf = std::function<std::vector<kir::Stmt>(Recurrence::Part part, const te::Expr& now)>;
kir::Stmt in_steps(Lowering& lowering, const Recurrence& recurrence, std::vector<te::VarId> grid,
                   const StepsOf& steps);

kir::Stmt lower_scan(Lowering& lowering, const te::Stage& stage, bool keep_order);
std::vector<kir::Stmt> lower_loops(Lowering& lowering, const te::Stage& stage, bool keep_order);
kir::Stmt lower_stages(Lowering& lowering, const Schedule& schedule);

}  // namespace xyntra
