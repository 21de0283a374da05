// `.xir` file → Module.
#pragma once

#include <string>

#include "ir/graph.h"

namespace xyntra {

// Read and verified; types are those in the text. Errors name the file, line and column.
Result<Module> import_xir(const std::string& path);

}  // namespace xyntra
