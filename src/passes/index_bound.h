// How large made-up inputs may be where a model takes them for indices.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph.h"

namespace xyntra {

// How large the elements of an integer input may be: fewer than the size of what they index, through casts and
// reshapes. Nothing when they index nothing, or the size is not known under these bindings.
std::optional<std::int64_t> index_bound(const Graph& graph, ValueId input, const SymbolBindings& sizes);

}  // namespace xyntra
