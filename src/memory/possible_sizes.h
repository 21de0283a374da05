// Sizes that a run can have, to plan an arena for and to verify it at.
#pragma once

#include <optional>

#include "memory/lifetimes.h"

namespace xyntra {

// The assumed sizes where every buffer has a size that there can be; else each at least 256; else what search_sizes finds.
// Nothing where none of them is possible: the model may be right all the same.
std::optional<SymbolBindings> possible_sizes(std::span<const BufferSpec> buffers,
                                             std::span<const LaunchSpec> launches,
                                             const SymbolBindings& assumed);

}  // namespace xyntra
