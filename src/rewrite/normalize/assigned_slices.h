// x[2:5, 1:4] = u, as exporters write it: a ScatterND whose indices count the places of a box.
#pragma once

#include <span>

#include "rewrite/program.h"

namespace xyntra {

// What is around the box, and the updates in its midst, concatenated: no order of writes is left to keep. Nothing where the indices
// are no box, or sizes are open along it.
std::optional<TermId> with_box_assigned(Program& program, TermId x, std::span<const std::int64_t> indices,
                                        const Shape& index_shape, TermId updates);

}  // namespace xyntra
