// Which groups are windows by Winograd (schedule/winograd.h), and what that means for their weights.
#pragma once

#include <map>

#include "fusion/groups.h"

namespace xyntra {

// Groups around a window whose weights are constants that nobody else reads take the schedule where it gains.
void take_winograd(const Graph& graph, Grouping& grouping, const Target& target,
                   const ChooseOptions& options);

// The same for one group that is said to have it; Nothing where it cannot.
std::optional<Choice> winograd_choice(const Graph& graph, const Group& group, const te::Formula& formula,
                                      const Choice& as_window, const Target& target,
                                      const ChooseOptions& options);

// Constants that lie in memory transformed, with the size of a tile. BadModel error where readers disagree about one.
using WinogradConstants = std::map<ValueId, std::int64_t>;
Result<WinogradConstants> winograd_constants(const Pieces& pieces, const std::vector<Group>& groups);

}  // namespace xyntra
