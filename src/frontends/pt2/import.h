// Archives of torch.export (.pt2) → Module. Weights stay in the mapped file; nothing pickled is read, so that sample inputs are
// passed over and weights that are pickled refused. What the program calls is translated by frontends/aten.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "frontends/aten/import.h"

namespace xyntra {

Result<Module> import_pt2(const std::string& path, const aten::ImportOptions& options = {});
// From memory, which weights are views into: `owner` keeps it, or else it must outlive the module.
Result<Module> import_pt2(std::span<const std::byte> bytes, const aten::ImportOptions& options = {},
                          std::shared_ptr<const void> owner = nullptr);

// An exported program alone: the JSON that torch.export writes as models/model.json, with its parameters, buffers and constants
// looked up by the names of its signature.
using TensorLookup = std::function<Result<Tensor>(const std::string& name)>;
Result<Module> import_exported_json(std::string_view text, const TensorLookup& lookup,
                                    const aten::ImportOptions& options = {});

}  // namespace xyntra
