#include "fusion/layout/prepacked_weights.h"

#include <algorithm>

#include "fusion/compose.h"
#include "schedule/schedule_rows.h"

namespace xyntra {
namespace {

bool reads(const Group& group, ValueId value) {
  return std::ranges::find(group.inputs, value) != group.inputs.end();
}

}  // namespace

bool are_its_own(const Graph& graph, const std::vector<Group>& groups, ValueId weights) {
  if (!weights.valid() || !graph.value(weights).is_constant()) return false;
  const auto readers =
      std::ranges::count_if(groups, [weights](const Group& group) { return reads(group, weights); });
  return readers == 1 && std::ranges::find(graph.outputs, weights) == graph.outputs.end();
}

Result<PrepackedWeights> prepacked_weights(const FusionNodes& fusion_nodes,
                                           const std::vector<Group>& groups) {
  PrepackedWeights found;
  for (const Group& group : groups) {
    const ScheduleRow& row = row_of(group.schedule.kind);
    if (!row.prepacks) continue;
    const te::Formula formula = compose(fusion_nodes, group.nodes, group.inputs, group.outputs);
    auto operand = row.prepacks(formula, group.schedule);
    const ValueId weights = operand && operand->operand >= 0
                                ? group.inputs.at(static_cast<std::size_t>(operand->operand))
                                : ValueId();
    if (!are_its_own(fusion_nodes.graph(), groups, weights))
      return bad_model("the schedule '" + std::string(name_of(group.schedule.kind)) +
                       "' needs weights of its own");
    found[weights] = std::move(operand->pack);
  }
  return found;
}

}  // namespace xyntra
