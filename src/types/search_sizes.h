// Sizes that fit one another.
//
// Where sizes are assumed one by one, a window of three leaves fewer than no rows of a feature map of one, and the product of
// nine axes of 128 is beyond any memory.
#pragma once

#include <optional>
#include <span>

#include "types/dim.h"

namespace xyntra {

// Sizes at which none of these expressions is negative or larger than `most`: the assumed ones but for what a bounded search
// changes, one symbol after the other, none of `fixed`. Nothing where it finds none. What has no value at the assumed sizes
// is left out.
std::optional<SymbolBindings> search_sizes(std::span<const Dim> expressions, std::int64_t most,
                                           SymbolBindings assumed, const SymbolBindings& fixed = {});

}  // namespace xyntra
