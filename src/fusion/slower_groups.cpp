#include "fusion/slower_groups.h"

#include <algorithm>

#include "fusion/drafts.h"
#include "schedule/layout/layouts.h"

namespace xyntra {
namespace {

class SlowerGroups {
 public:
  SlowerGroups(const FusionNodes& fusion_nodes, const std::vector<ValueLayout>& layouts, const Target& target,
               const FusionOptions& options, DraftCache& cache, LayoutCosts& costs)
      : graph_(fusion_nodes.graph()),
        layouts_(layouts_of(layouts)),
        target_(target),
        nominal_(options.choose.nominal),
        costs_(costs),
        drafts_(fusion_nodes, target, options, {}, cache) {}

  // Why not, where the nodes of a group would be faster by themselves.
  std::optional<std::string> faster_apart(const Group& group, const te::Formula& formula) {
    const std::vector<NodeId> core = core_of(group);
    if (core.size() < 2 || formula.stages.empty()) return std::nullopt;
    const bool main = group.hero == Hero::Contraction || group.hero == Hero::Window;
    const std::int64_t together = laid_out_ns(formula, group, layouts_, target_, nominal_, costs_);
    if (!main && together <= group.predicted_ns) return std::nullopt;  // the grouping knew all of it
    std::int64_t apart = 0;
    for (NodeId node : core) {
      const auto made = drafts_.make({node}, {});
      if (!made) return std::nullopt;
      const GroupDraft& draft = drafts_.all()[*made];
      if (!draft.choice.counted) return std::nullopt;
      Group alone;
      alone.hero = draft.choice.hero;
      alone.inputs = draft.inputs;
      alone.outputs = draft.outputs;
      alone.schedule = draft.choice.schedule;
      alone.predicted_ns = draft.choice.predicted_ns;
      apart += alone_ns(alone, draft.formula);
      if (apart >= together) return std::nullopt;
    }
    return "with the strides that are left they would take " + in_units(together) + ", apart " +
           in_units(apart);
  }

  std::vector<std::string> names_of(const Group& group) const { return drafts_.names_of(core_of(group)); }

 private:
  std::vector<NodeId> core_of(const Group& group) const {
    std::vector<NodeId> core;
    for (NodeId node : group.nodes) {
      if (drafts_.materialised(node)) core.push_back(node);
    }
    return core;
  }

  // With constants as it would have them: in the group they may lie otherwise.
  std::int64_t alone_ns(const Group& group, const te::Formula& formula) const {
    LayoutsByValue layouts = layouts_;
    const LayoutDecision own = choose_layouts(graph_, {group}, {formula}, target_, nominal_, costs_);
    for (const ValueLayout& wish : own.layouts) layouts.insert_or_assign(wish.value, wish.layout);
    return laid_out_ns(formula, group, layouts, target_, nominal_, costs_);
  }

  const Graph& graph_;
  const LayoutsByValue layouts_;
  const Target& target_;
  const SymbolBindings& nominal_;
  LayoutCosts& costs_;
  GroupDrafts drafts_;
};

}  // namespace

KeptApart slower_groups(const FusionNodes& fusion_nodes, const Grouping& grouping,
                        const std::vector<ValueLayout>& layouts, const Target& target,
                        const FusionOptions& options, DraftCache& cache, LayoutCosts& costs) {
  KeptApart found;
  if (!options.enabled || target.kind != TargetKind::Cpu) return found;
  SlowerGroups groups(fusion_nodes, layouts, target, options, cache, costs);
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const Group& group = grouping.groups[g];
    if (auto why = groups.faster_apart(group, grouping.formulas[g]))
      found.emplace(groups.names_of(group), std::move(*why));
  }
  return found;
}

}  // namespace xyntra
