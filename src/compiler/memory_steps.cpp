#include <algorithm>
#include <iterator>

#include "compiler/predict_plan.h"
#include "compiler/steps.h"
#include "fusion/memory_needs.h"
#include "fusion/slower_groups.h"
#include "ir/text_parser.h"
#include "ops/infer.h"
#include "passes/copies.h"
#include "schedule/layout/layouts.h"
#include "schedule/layout/strides.h"

namespace xyntra {
namespace {

LayoutCosts& costs_of(Compilation& work) {
  if (!work.layout_costs) work.layout_costs.emplace(*work.options.target, work.plan.nominal);
  return *work.layout_costs;
}

// What fusion decided, then copies that are made already, then layouts.
void publish_choices(Compilation& work) {
  std::vector<LayoutChoice>& choices = work.plan.choices;
  if (work.copied) choices.insert(choices.end(), work.copied->begin(), work.copied->end());
  choices.insert(choices.end(), work.layout.choices.begin(), work.layout.choices.end());
  // Fusion and layouts may both have weighed a copy of one value: what fusion decided comes first, and stands.
  std::ranges::stable_sort(choices, comes_before);
  const auto again = std::ranges::unique(
      choices, [](const LayoutChoice& a, const LayoutChoice& b) { return !comes_before(a, b); });
  choices.erase(again.begin(), again.end());
}

Status plan_memory_with(Compilation& work, bool reuse) {
  XYNTRA_TRY(const std::vector<Extension> extensions,
             extensions_with_room(*work.fusion_nodes, work.grouping.groups, work.grouping.formulas,
                                  work.plan.layouts));
  MemoryNeeds needs = memory_needs(*work.fusion_nodes, work.grouping, work.plan.layouts, extensions,
                                   work.plan.nominal, *work.options.target);
  if (!reuse) {
    for (GroupMemory& group : needs.groups) group.in_place.clear();
  }
  XYNTRA_TRY(PlannedMemory memory, plan_memory(work.plan.graph, needs));
  work.plan.memory = std::move(memory.plan);
  if (!reuse) {
    for (Slot& slot : work.plan.memory.slots) {  // what lives during the whole run shares memory with nothing
      slot.first = 0;
      slot.last = static_cast<std::uint32_t>(needs.groups.size() - 1);
    }
  }
  work.plan.groups = std::move(work.grouping.groups);  // some turned out to be views
  return {};
}

}  // namespace

Status layout_step(Compilation& work) {
  work.layout = choose_layouts(work.plan.graph, work.grouping.groups, work.grouping.formulas,
                               *work.options.target, work.plan.nominal, costs_of(work));
  work.plan.layouts = work.layout.layouts;
  publish_choices(work);
  return {};
}

Status row_major(Compilation& work) {
  work.layout = {};
  publish_choices(work);
  return {};
}

// Layouts of groups that are kept apart may in turn make others slower, hence a limit.
Status losses_step(Compilation& work) {
  constexpr int kMostTimes = 4;
  if (work.copied || work.losses == kMostTimes) return {};
  KeptApart slower = slower_groups(*work.fusion_nodes, work.grouping, work.layout.layouts,
                                   *work.options.target, fusion_options(work), work.drafts, costs_of(work));
  if (slower.empty()) return {};
  work.apart.merge(std::move(slower));
  ++work.losses;
  group_again(work);
  return {};
}

// They become nodes, and the graph is fused once more around them.
Status copies_step(Compilation& work) {
  const std::vector<LayoutCopy>& copies = work.layout.copies;
  if (work.copied || copies.empty()) return {};
  const std::vector<std::string> names = insert_copies(work.plan.graph, work.grouping.groups, copies);
  work.plan.graph = in_text_order(work.plan.graph);
  XYNTRA_CHECK_OK(infer_types(work.plan.graph, work.options.budget.get()));
  work.copied.emplace();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    work.stages.emplace(names[i], "a copy once is cheaper than strides in everyone who uses the value");
    work.copied->push_back(copies[i].choice);
    work.copied->back().value = work.plan.graph.find(names[i]);
  }
  work.fusion_nodes.reset();
  group_again(work);
  return {};
}

Status times_step(Compilation& work) {
  predict_groups(work.plan.graph, layouts_of(work.plan.layouts), work.plan.nominal, work.grouping,
                 *work.options.target, costs_of(work));
  work.plan.groups = work.grouping.groups;
  return {};
}

Status room_step(Compilation& work) {
  work.layout_costs.reset();
  ChooseOptions counting = work.options.fusion.choose;
  counting.nominal = work.plan.nominal;
  XYNTRA_TRY(const std::vector<ValueLayout> roomy,
             leave_room(*work.fusion_nodes, work.grouping, work.options.donated, *work.options.target,
                        counting, work.plan.nominal));
  work.plan.layouts.insert(work.plan.layouts.end(), roomy.begin(), roomy.end());
  std::ranges::sort(work.plan.layouts, {}, &ValueLayout::value);
  work.plan.groups = work.grouping.groups;  // what is not copied costs nothing
  return {};
}

Status memory_step(Compilation& work) { return plan_memory_with(work, true); }
Status memory_for_each(Compilation& work) { return plan_memory_with(work, false); }

}  // namespace xyntra
