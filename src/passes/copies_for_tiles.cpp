#include "passes/copies_for_tiles.h"

#include <algorithm>

#include "fusion/drafts.h"
#include "lower/lower.h"
#include "support/limits/current_budget.h"

namespace xyntra {
namespace {

constexpr std::int64_t kFewOperations = 1 << 20;  // that loops do in less time than a launch takes

using Copies = std::map<std::string, std::string>;

bool is_of_loops(const std::vector<std::string>& forms) {
  return std::ranges::all_of(forms, [](const std::string& form) { return form == name_of(Form::Loops); });
}

class CopiesForTiles {
 public:
  CopiesForTiles(const Plan& plan, const FusionNodes& fusion_nodes, const Target& target,
                 const FusionOptions& options)
      : plan_(plan), fusion_nodes_(fusion_nodes), target_(target), options_(options) {}

  Copies of(const Group& group) {
    const bool is_product = group.hero == Hero::Contraction || group.hero == Hero::Window;
    if (!is_product || !is_of_loops(group.schedule.forms)) return Copies{};
    const Dim operations = group.flops.substitute(plan_.nominal);
    if (operations.is_constant() && operations.constant() < kFewOperations) return Copies{};
    Copies copies = read_through(group);
    if (copies.empty()) return copies;
    return has_tiles_with(copies, group) ? copies : Copies{};
  }

 private:
  // Results of changes of index that nodes with work of their own read within the group.
  Copies read_through(const Group& group) const {
    DraftCache none;
    const GroupDrafts drafts(fusion_nodes_, target_, options_, {}, none);
    Copies found;
    for (NodeId reader : group.nodes) {
      if (!drafts.materialised(reader)) continue;
      for (ValueId value : plan_.graph.node(reader).inputs) {
        NodeId changed = read_through_node(value, drafts, group);
        // As narrow as it is: a conversion stays with its reader, whose tiles may be of what comes before it.
        while (changed.valid() && plan_.graph.node(changed).op == "Cast")
          changed = read_through_node(plan_.graph.node(changed).inputs.front(), drafts, group);
        if (changed.valid())
          found.emplace(plan_.graph.value(plan_.graph.node(changed).outputs.front()).name,
                        "no tile reads it through its changes of index");
      }
    }
    return found;
  }

  // The node of the group that makes a value, where it is no work of its own.
  NodeId read_through_node(ValueId value, const GroupDrafts& drafts, const Group& group) const {
    const NodeId producer = value.valid() ? plan_.graph.value(value).producer : NodeId();
    const bool within = producer.valid() && !drafts.materialised(producer) &&
                        std::ranges::find(group.nodes, producer) != group.nodes.end();
    return within ? producer : NodeId();
  }

  // Where that fails, the group stays as it is.
  bool has_tiles_with(const Copies& copies, const Group& group) const {
    FusionOptions options = options_;
    options.stages.insert(copies.begin(), copies.end());
    DraftCache none;
    GroupDrafts drafts(fusion_nodes_, target_, options, {}, none);
    std::vector<NodeId> core;
    for (NodeId node : group.nodes) {
      const ValueId result = plan_.graph.node(node).outputs.front();
      if (drafts.materialised(node) && !copies.contains(plan_.graph.value(result).name)) core.push_back(node);
    }
    const auto made = drafts.make(std::move(core), {});
    if (!made) return false;
    const GroupDraft& draft = drafts.all()[*made];
    const auto kernel = lower(draft.formula, draft.choice.schedule, target_, plan_.nominal, "k");
    return kernel && !is_of_loops(kernel->forms);
  }

  const Plan& plan_;
  const FusionNodes& fusion_nodes_;
  const Target& target_;
  const FusionOptions& options_;
};

}  // namespace

Result<Copies> copies_for_tiles(const Plan& plan, const FusionNodes& fusion_nodes, const Target& target,
                                const FusionOptions& options) {
  Copies all;
  if (!options.enabled || target.kind == TargetKind::Cpu) return all;
  CopiesForTiles copies(plan, fusion_nodes, target, options);
  for (const Group& group : plan.groups) {
    XYNTRA_CHECK_OK(check_limits());
    all.merge(copies.of(group));
  }
  return all;
}

}  // namespace xyntra
