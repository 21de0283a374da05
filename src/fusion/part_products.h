// Which groups are products of parts (schedule/part_products.h).
#pragma once

#include "fusion/groups.h"

namespace xyntra {

// Groups around a product whose weights are constants that nobody else reads take the schedule where it gains.
void take_parts(const Graph& graph, Grouping& grouping, const Target& target, const ChooseOptions& options);

// The same for one group that is said to have it; nothing where it cannot.
std::optional<Choice> parts_choice(const Graph& graph, const Group& group, const te::Formula& formula,
                                   const Choice& as_product, const Target& target,
                                   const ChooseOptions& options);

// Invalid where the group has no weights of this form.
ValueId part_weights_of(const Group& group, const te::Formula& formula);

}  // namespace xyntra
