#include "compiler/compiled/specialise.h"

#include <algorithm>

#include "compiler/compiled/compiled_bodies.h"
#include "passes/assume.h"

namespace xyntra {
namespace {

std::ptrdiff_t host_calls(const Plan& plan) {
  return std::ranges::count(plan.groups, Hero::Host, &Group::hero);
}

}  // namespace

bool Specialiser::wanted(const Plan& plan) {
  return std::ranges::any_of(plan.groups, [&](const Group& group) {
    return group.hero == Hero::Host &&
           std::ranges::any_of(group.nodes, [&](NodeId node) { return plan.graph.node(node).op == "If"; });
  });
}

Specialiser::Specialiser(const Graph& graph, const Plan& general, CompileOptions compiling, CpuOptions cpu)
    : graph_(graph),
      general_calls_(host_calls(general)),
      compiling_(std::move(compiling)),
      cpu_(std::move(cpu)) {}

std::shared_ptr<const CompiledModel> Specialiser::for_sizes(const SymbolBindings& sizes) {
  const std::lock_guard lock(mutex_);
  if (auto known = made_.find(sizes); known != made_.end()) return known->second;
  if (made_.size() >= kMost) return nullptr;
  // Where no model can be made for these sizes, the general one runs, or says what is wrong. It is not
  // tried again.
  auto model = compile(sizes);
  return made_[sizes] = model ? *std::move(model) : nullptr;
}

Result<std::shared_ptr<const CompiledModel>> Specialiser::compile(const SymbolBindings& sizes) const {
  XYNTRA_TRY(const Graph graph, with_sizes(graph_, sizes, cpu_.budget.get()));
  CompileOptions compiling = compiling_;
  compiling.fusion.choose.nominal = sizes;
  XYNTRA_TRY(const Plan plan, make_plan(graph, compiling));
  if (host_calls(plan) >= general_calls_) return nullptr;
  XYNTRA_TRY(CompiledModel model, compile_for_cpu(plan, cpu_));
  XYNTRA_CHECK_OK(compile_bodies(model, plan, compiling, cpu_));
  return std::make_shared<const CompiledModel>(std::move(model));
}

}  // namespace xyntra
