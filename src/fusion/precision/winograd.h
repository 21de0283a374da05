// Which groups are windows by Winograd (schedule/convolution/winograd.h).
#pragma once

#include "fusion/groups.h"

namespace xyntra {

// Groups around a window whose weights are constants that nobody else reads take the schedule where it gains.
void take_winograd(const Graph& graph, Grouping& grouping, const Target& target,
                   const ChooseOptions& options);

// The same for one group that is said to have it; Nothing where it cannot.
std::optional<Choice> winograd_choice(const Graph& graph, const Group& group, const te::Formula& formula,
                                      const Choice& as_window, const Target& target,
                                      const ChooseOptions& options);

// Invalid where the group has no weights of this form.
ValueId winograd_weights_of(const Group& group, const te::Formula& formula);

}  // namespace xyntra
