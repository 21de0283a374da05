// TorchScript archive (.pt of torch.jit.save) → Module: the graph of what `forward` does with inputs of given shapes.
//
// Code in the archive says no shapes and runs on any; so the caller says those of the inputs, and conditions and loops on
// them are decided at import. Nothing in the archive is executed by anything but our own evaluator, which is bounded.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontends/graph_builder.h"
#include "frontends/input_hint.h"
#include "ir/graph.h"
#include "support/files/file.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra::torchscript {

struct ImportOptions {
  std::vector<InputHint> inputs;
  UndefinedOps undefined_ops = UndefinedOps::Refuse;
  std::shared_ptr<Budget> budget = nullptr;  // may be null
  std::int64_t max_steps = 200'000;  // statements and calls that are evaluated
};

Result<Module> import_torchscript(const std::string& path, const ImportOptions& options = {});
Result<Module> import_torchscript(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                  const ImportOptions& options = {});

}  // namespace xyntra::torchscript
