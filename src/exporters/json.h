// Module → JSON, for other programs to look at: names, types, attributes; of long constants the hash.
#pragma once

#include <string>

#include "ir/graph.h"

namespace xyntra {

std::string export_json(const Module& module);

}  // namespace xyntra
