// How a GPU's products want the weights of windows to lie. A tile is then one offset of the window, some channels and some
// results: positions in the picture are computed once for a tile, and weights come by vectors along the results.
//
//   w[o, c, i, j]    in memory: w[i, j, c, o]
#pragma once

#include "schedule/layout/layouts.h"

namespace xyntra {

// Channels that a tile takes at a time: fewer of them, or a number that this does not divide, leave weights as they are, but for units of
// warps, which take them in chunks along the results.
inline constexpr std::int64_t kChannelsOfTile = 32;

std::vector<ValueLayout> turn_weights(const Graph& graph, const std::vector<Group>& groups,
                                      const std::vector<te::Formula>& formulas, const Target& target);

}  // namespace xyntra
