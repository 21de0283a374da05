// Model files by their ending: .onnx, .pt2, .pt (TorchScript) and .xir.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontends/input_hint.h"
#include "ir/graph.h"
#include "support/limits/limits.h"

namespace xyntra {

struct LoadOptions {
  bool strict = false;              // declared shapes that are not so are errors
  bool keep_undefined_ops = false;  // operators without definition stay, so that all of them can be listed
  std::shared_ptr<Budget> budget;   // may be null
  std::vector<InputHint> inputs =
      {};  // of TorchScript, which does not say what its inputs are; for others, which do, a usage error
};

// Whether a file of this name is read as TorchScript: .pt, .pth, .jit, .ptl, .torchscript.
bool is_torchscript(const std::string& path);

// Read, verified, types inferred.
Result<Module> load_model(const std::string& path, const LoadOptions& options = {});
// A file's content in memory, which `owner` keeps: .xir where it begins as text IR does, TorchScript or .pt2 where it is a zip
// archive, else .onnx without external data.
Result<Module> load_model(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                          const LoadOptions& options = {});

}  // namespace xyntra
