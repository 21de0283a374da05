#include <algorithm>

#include "compiler/lower_plan.h"
#include "compiler/steps.h"
#include "fusion/layout/skip_padding.h"
#include "fusion/precision/bf16x3.h"
#include "fusion/precision/tf32.h"
#include "fusion/precision/winograd.h"
#include "passes/copies_for_tiles.h"

namespace xyntra {

std::vector<std::string> names_of_nodes(const Graph& graph, const Group& group) {
  std::vector<std::string> names;
  for (NodeId node : group.nodes) names.push_back(graph.value(name_of_node(graph, node)).name);
  return names;
}

FusionOptions fusion_options(const Compilation& work) {
  FusionOptions options = work.options.fusion;
  options.enabled = is_on(work.options, "fuse");
  options.choose.nominal = work.plan.nominal;
  options.budget = work.options.budget.get();
  options.stages = work.stages;
  options.donated = work.options.donated;
  options.apart = work.apart;
  options.kernel_code_size = kernel_code_size;
  return options;
}

void group_again(Compilation& work) {
  Plan& plan = work.plan;
  plan.groups.clear();
  plan.edges.clear();
  plan.choices.clear();
  plan.layouts.clear();
  plan.memory = {};
  work.group_again = true;
}

namespace {

// Groups whose own form failed have the plainest one, whatever a step would make of them.
void publish_groups(Compilation& work) {
  for (Group& group : work.grouping.groups) {
    const auto failed = work.options.plain.find(names_of_nodes(work.plan.graph, group));
    if (failed == work.options.plain.end()) continue;
    group.schedule = {ScheduleKind::Plain, group.schedule.exactness, {}};
    group.reason = failed->second;
  }
  work.plan.groups = work.grouping.groups;
  work.plan.edges = work.grouping.edges;
  work.plan.choices = work.grouping.choices;
}

template <void (*kTake)(const Graph&, Grouping&, const Target&, const ChooseOptions&)>
Status take(Compilation& work) {
  kTake(work.plan.graph, work.grouping, *work.options.target, fusion_options(work).choose);
  publish_groups(work);
  return {};
}

}  // namespace

Status fuse_step(Compilation& work) {
  if (!work.fusion_nodes) {
    XYNTRA_TRY(work.fusion_nodes, FusionNodes::of(work.plan.graph, work.options.budget.get()));
    work.drafts = {};
  }
  XYNTRA_TRY(work.grouping,
             group_nodes(*work.fusion_nodes, *work.options.target, fusion_options(work), work.drafts));
  for (const Fallback& one : work.grouping.fallbacks) {
    if (std::ranges::find(work.plan.fallbacks, one) == work.plan.fallbacks.end())
      work.plan.fallbacks.push_back(one);
  }
  publish_groups(work);
  return {};
}

Status winograd_step(Compilation& work) { return take<take_winograd>(work); }

Status bf16x3_step(Compilation& work) {
  return work.options.fusion.choose.allow_reassociating ? take<take_bf16x3>(work) : Status();
}

Status tf32_step(Compilation& work) {
  return work.options.fusion.choose.allow_reassociating ? take<take_tf32>(work) : Status();
}

Status paddings_step(Compilation& work) {
  skip_paddings(work.plan.graph, work.grouping, *work.options.target);
  publish_groups(work);
  return {};
}

Status forms_step(Compilation& work) {
  return choose_forms(work.plan, *work.fusion_nodes, *work.options.target, work.options.barred_forms);
}

Status operands_step(Compilation& work) {
  if (work.operands_copied) return {};
  XYNTRA_TRY(auto copies,
             copies_for_tiles(work.plan, *work.fusion_nodes, *work.options.target, fusion_options(work)));
  if (copies.empty()) return {};
  work.stages.merge(std::move(copies));
  work.operands_copied = true;
  work.losses = 0;
  work.copied.reset();
  group_again(work);
  return {};
}

}  // namespace xyntra
