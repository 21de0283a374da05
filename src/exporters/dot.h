// Module → DOT, for graphviz: `dot -Tsvg model.dot`.
#pragma once

#include <string>

#include "ir/graph.h"

namespace xyntra {

std::string export_dot(const Module& module);

}  // namespace xyntra
