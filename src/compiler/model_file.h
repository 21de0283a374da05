// Model files by their ending: .onnx and .xir so far.
#pragma once

#include <string>

#include "ir/graph.h"
#include "support/limits.h"

namespace xyntra {

struct LoadOptions {
  bool strict = false;              // declared shapes that are not so are errors
  bool keep_undefined_ops = false;  // operators without definition stay, so that all of them can be listed
  std::shared_ptr<Budget> budget;   // may be null
};

// Read, verified, types inferred.
Result<Module> load_model(const std::string& path, const LoadOptions& options = {});

}  // namespace xyntra
