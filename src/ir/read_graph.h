// The text of one graph that is written apart, as print_graph gives it.
#pragma once

#include "ir/text_parser.h"

namespace xyntra {

// BadModel error where something follows it. Nothing is verified beyond what parse_graph() does; `what` begins messages.
Result<Graph> read_graph(const std::string& text, WeightHashes& weights, const std::string& what);

}  // namespace xyntra
