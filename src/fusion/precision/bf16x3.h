// Which groups are split-float GEMMs: f32 from a bf16x3 split of each factor (schedule/contraction/part_products.h).
#pragma once

#include "fusion/groups.h"

namespace xyntra {

// Groups around a GEMM whose weights are constants that nobody else reads take the schedule where it gains.
void take_bf16x3(const Graph& graph, Grouping& grouping, const Target& target, const ChooseOptions& options);

// The same for one group that is said to have it; nothing where it cannot.
std::optional<Choice> bf16x3_choice(const Graph& graph, const Group& group, const te::Formula& formula,
                                    const Choice& as_gemm, const Target& target,
                                    const ChooseOptions& options);

// Invalid where the group has no weights of this form.
ValueId bf16x3_weights_of(const Group& group, const te::Formula& formula);

}  // namespace xyntra
