// The sizes that costs are counted with, as people write them: "seq=128".
#pragma once

#include <span>

#include "ir/graph.h"

namespace xyntra {

// Usage error, beginning with `where`, for what is not NAME=SIZE, for names the inputs do not have, and for a second size.
Result<SymbolBindings> nominal_sizes(const Graph& graph, std::span<const std::string> texts,
                                     std::string_view where);

// Takes those of the form NAME=LOW..HIGH out of the texts: the sizes that a model is compiled for.
Result<SymbolRanges> take_ranges(const Graph& graph, std::vector<std::string>& texts, std::string_view where);

}  // namespace xyntra
