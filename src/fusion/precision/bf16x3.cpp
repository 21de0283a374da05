#include "fusion/precision/bf16x3.h"

#include "fusion/layout/prepacked_weights.h"
#include "schedule/contraction/part_products.h"

namespace xyntra {

ValueId bf16x3_weights_of(const Group& group, const te::Formula& formula) {
  const auto weights = part_weights(formula);
  return weights ? group.inputs.at(static_cast<std::size_t>(weights->operand)) : ValueId();
}

std::optional<Choice> bf16x3_choice(const Graph& graph, const Group& group, const te::Formula& formula,
                                    const Choice& as_gemm, const Target& target,
                                    const ChooseOptions& options) {
  auto choice = as_parts(formula, as_gemm, target, options);
  if (!choice) return std::nullopt;
  const ValueId weights = bf16x3_weights_of(group, formula);
  const bool constant = graph.value(weights).is_constant();
  return constant && can_be_split(graph.value(weights).constant) ? choice : std::nullopt;
}

void take_bf16x3(const Graph& graph, Grouping& grouping, const Target& target, const ChooseOptions& options) {
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    Group& group = grouping.groups[g];
    if (group.hero != Hero::Contraction) continue;
    const Choice as_gemm{group.hero, group.schedule, group.flops, group.scratch_bytes, group.predicted_ns};
    const auto choice = bf16x3_choice(graph, group, grouping.formulas[g], as_gemm, target, options);
    if (!choice) continue;
    if (!are_its_own(graph, grouping.groups, bf16x3_weights_of(group, grouping.formulas[g]))) continue;
    group.schedule = choice->schedule;
    group.predicted_ns = choice->predicted_ns;
  }
}

}  // namespace xyntra
