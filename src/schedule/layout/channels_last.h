// How feature maps lie for the matrix units of a GPU's warps. These sum along the channels of a convolution, and get their operands in
// chunks of 16 bytes: channels come last, so that a chunk is 8 channels of one pixel.
//
//   x[n, c, h, w]    in memory: x[n, h, w, c]
#pragma once

#include <optional>

#include "schedule/layout/layouts.h"

namespace xyntra {

// Whether warps of the target multiply elements of 16 bits.
bool has_units_of_warps(const Target& target);

// Of a feature map; nothing where its channels make no whole chunks.
std::optional<Layout> channels_last(const te::BufferInfo& buffer);

// What the products of a group take whose values lie so, in ns, where they are for units of warps: those multiply what comes in chunks,
// wait for what passes through registers, and wait longest for windows that do. Nothing where it has no such product.
std::optional<std::int64_t> warp_products_ns(const te::Formula& laid_out, const Target& target,
                                             const SymbolBindings& nominal);

}  // namespace xyntra
