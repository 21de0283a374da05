#include "fusion/slower_groups.h"

#include <algorithm>

#include "fusion/drafts.h"
#include "schedule/layouts.h"
#include "schedule/strides.h"

namespace xyntra {
namespace {

class SlowerGroups {
 public:
  SlowerGroups(const FusionNodes& fusion_nodes, const std::vector<ValueLayout>& layouts, const Target& target,
               const FusionOptions& options, DraftCache& cache)
      : layouts_(layouts_of(layouts)),
        target_(target),
        nominal_(options.choose.nominal),
        drafts_(fusion_nodes, target, options, {}, cache) {}

  // Why not, where the nodes of a group would be faster by themselves.
  std::optional<std::string> faster_apart(const Group& group, const te::Formula& formula) {
    const std::vector<NodeId> core = core_of(group);
    if (core.size() < 2 || formula.stages.empty()) return std::nullopt;
    const std::int64_t strides = strides_of(group, formula), together = group.predicted_ns + strides;
    if (strides == 0) return std::nullopt;  // the grouping knew all of it
    std::int64_t apart = 0;
    for (NodeId node : core) {
      const auto made = drafts_.make({node}, {});
      if (!made) return std::nullopt;
      const GroupDraft& draft = drafts_.all()[*made];
      if (!draft.choice.counted) return std::nullopt;
      Group alone;
      alone.inputs = draft.inputs;
      alone.outputs = draft.outputs;
      alone.schedule = draft.choice.schedule;
      apart += draft.choice.predicted_ns + strides_of(alone, draft.formula);
    }
    if (together <= apart) return std::nullopt;
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

  std::int64_t strides_of(const Group& group, te::Formula formula) const {
    lay_out(formula, group, layouts_);
    return strided_ns(formula, group.schedule, target_, nominal_);
  }

  const LayoutsByValue layouts_;
  const Target& target_;
  const SymbolBindings& nominal_;
  GroupDrafts drafts_;
};

}  // namespace

KeptApart slower_groups(const FusionNodes& fusion_nodes, const Grouping& grouping,
                        const std::vector<ValueLayout>& layouts, const Target& target,
                        const FusionOptions& options, DraftCache& cache) {
  KeptApart found;
  if (!options.enabled || target.kind != TargetKind::Cpu) return found;
  SlowerGroups groups(fusion_nodes, layouts, target, options, cache);
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const Group& group = grouping.groups[g];
    if (auto why = groups.faster_apart(group, grouping.formulas[g]))
      found.emplace(groups.names_of(group), std::move(*why));
  }
  return found;
}

}  // namespace xyntra
