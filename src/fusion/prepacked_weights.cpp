#include "fusion/prepacked_weights.h"

#include <algorithm>

#include "fusion/bf16x3.h"
#include "fusion/compose.h"
#include "fusion/winograd.h"
#include "schedule/contraction/part_products.h"
#include "schedule/convolution/winograd.h"

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
    const bool winograd = group.schedule.kind == ScheduleKind::Winograd,
               bf16x3 = group.schedule.kind == ScheduleKind::Bf16x3;
    if (!winograd && !bf16x3) continue;
    const te::Formula formula = compose(fusion_nodes, group.nodes, group.inputs, group.outputs);
    const ValueId weights =
        winograd ? winograd_weights_of(group, formula) : bf16x3_weights_of(group, formula);
    if (!are_its_own(fusion_nodes.graph(), groups, weights))
      return bad_model("the schedule '" + std::string(name_of(group.schedule.kind)) +
                       "' needs weights of its own");
    if (winograd) {
      found[weights] = [output = knob_of(group.schedule, "output")](const Tensor& constant) {
        return winograd_weights(constant, output);
      };
    } else {
      found[weights] = [depth = part_weights(formula)->depth](const Tensor& constant) {
        return weights_in_parts(constant, depth);
      };
    }
  }
  return found;
}

}  // namespace xyntra
