#include "fusion/winograd.h"

#include <algorithm>

#include "fusion/compose.h"
#include "schedule/winograd.h"
#include "support/text.h"

namespace xyntra {
namespace {

bool reads(const Group& group, ValueId value) {
  return std::ranges::find(group.inputs, value) != group.inputs.end();
}

// Invalid where the group has no weights of this form.
ValueId weights_of(const Group& group, const te::Formula& formula) {
  const int operand = winograd_operand(formula);
  return operand < 0 ? ValueId() : group.inputs.at(static_cast<std::size_t>(operand));
}

// Weights that may lie in memory transformed: constants that one group reads, once, and nobody else sees.
bool are_its_own(const Graph& graph, const std::vector<Group>& groups, ValueId weights) {
  if (!weights.valid() || !graph.value(weights).is_constant()) return false;
  const auto readers =
      std::ranges::count_if(groups, [weights](const Group& group) { return reads(group, weights); });
  return readers == 1 && std::ranges::find(graph.outputs, weights) == graph.outputs.end();
}

}  // namespace

std::optional<Choice> winograd_choice(const Graph& graph, const Group& group, const te::Formula& formula,
                                      const Choice& as_window, const Target& target,
                                      const ChooseOptions& options) {
  const ValueId weights = weights_of(group, formula);
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
    if (!are_its_own(graph, grouping.groups, weights_of(group, grouping.formulas[g]))) continue;
    group.schedule = std::move(choice->schedule);
    group.scratch_bytes = choice->scratch_bytes;
    group.predicted_ns = choice->predicted_ns;
  }
}

Result<WinogradConstants> winograd_constants(const Pieces& pieces, const std::vector<Group>& groups) {
  WinogradConstants found;
  for (const Group& group : groups) {
    if (group.schedule.name != kWinograd) continue;
    const te::Formula formula = compose(pieces, group.nodes, group.inputs, group.outputs);
    const ValueId weights = weights_of(group, formula);
    if (!are_its_own(pieces.graph(), groups, weights))
      return bad_model("the schedule 'winograd' needs weights of its own");
    found.emplace(weights, knob_of(group.schedule, "output"));
  }
  return found;
}

}  // namespace xyntra
