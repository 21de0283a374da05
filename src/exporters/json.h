// Module → JSON, for other programs to look at: names, types, attributes; of long constants the hash.
#pragma once

#include "ir/graph.h"
#include "support/text/json.h"

namespace xyntra {

Json graph_json(const Module& module);

}  // namespace xyntra
