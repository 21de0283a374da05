#include "fusion/precision/winograd.h"

#include "fusion/layout/prepacked_weights.h"
#include "schedule/convolution/winograd.h"

namespace xyntra {

ValueId winograd_weights_of(const Group& group, const te::Formula& formula) {
  const int operand = winograd_operand(formula);
  return operand < 0 ? ValueId() : group.inputs.at(static_cast<std::size_t>(operand));
}

std::optional<Choice> winograd_choice(const Graph& graph, const Group& group, const te::Formula& formula,
                                      const Choice& as_window, const Target& target,
                                      const ChooseOptions& options) {
  const ValueId weights = winograd_weights_of(group, formula);
  if (!weights.valid() || !graph.value(weights).is_constant()) return std::nullopt;
  return as_winograd(formula, as_window, target, options);
}

void take_winograd(const Graph& graph, Grouping& grouping, const Target& target,
                   const ChooseOptions& options) {
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    Group& group = grouping.groups[g];
    if (group.hero != Hero::Window) continue;
    const Choice as_window{group.hero, group.schedule, group.flops, group.scratch_bytes, group.predicted_ns};
    auto choice = winograd_choice(graph, group, grouping.formulas[g], as_window, target, options);
    if (!choice) continue;
    if (!are_its_own(graph, grouping.groups, winograd_weights_of(group, grouping.formulas[g]))) continue;
    group.schedule = std::move(choice->schedule);
    group.scratch_bytes = choice->scratch_bytes;
    group.predicted_ns = choice->predicted_ns;
  }
}

}  // namespace xyntra
