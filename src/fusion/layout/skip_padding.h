// Which windows may leave out their products with padding (schedule/convolution/window_border.h): those whose weights are finite.
#pragma once

#include "fusion/groups.h"

namespace xyntra {

// Groups around such windows get the knob, on targets whose schedules know it.
void skip_paddings(const Graph& graph, Grouping& grouping, const Target& target);

// Whether the group is one: constants alone are multiplied with what its windows see, and none is infinite or NaN.
bool may_skip_padding(const Graph& graph, const Group& group, const te::Formula& formula,
                      const Target& target);

// As many knobs, and this one, in order.
void add_padding_knob(Schedule& schedule);

}  // namespace xyntra
