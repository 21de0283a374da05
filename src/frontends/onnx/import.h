// ONNX file → Module. Whatever the file gets wrong is an error that names file, node, operator and reason, except
// declared shapes, which nothing is computed from: what is inferred wins, and the module has a warning. Nothing outside the model's folder is opened; time and memory are bounded by the size of the file.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "frontends/graph_builder.h"
#include "frontends/onnx/protobuf/message_reader.h"
#include "ir/graph.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra {

struct ImportOptions {
  onnx::WireLimits limits;
  // Keep: operators without definition stay in the graph, so that `undefined_ops` can list them all at once.
  UndefinedOps undefined_ops = UndefinedOps::Refuse;
  bool strict = false;  // wrong declared shapes are errors, too
  std::shared_ptr<Budget> budget = nullptr;  // its time is looked at from node to node; may be null
};

Result<Module> import_onnx(const std::string& path, const ImportOptions& options = {});

// From memory, which weights are views into: `owner` keeps it, or else it must outlive the module. External data is refused.
Result<Module> import_onnx(std::span<const std::byte> bytes, const ImportOptions& options = {},
                           std::shared_ptr<const void> owner = nullptr);

}  // namespace xyntra
