// Concatenations of long tensors by copies of memory, several threads at once: the bits of the formula. Operands may lie anywhere.
#pragma once

#include <optional>
#include <span>

#include "ir/graph.h"
#include "support/limits/limits.h"
#include "support/limits/threads.h"

namespace xyntra {

// Nothing where a node is no such concatenation.
std::optional<Result<Tensor>> concatenated(const Node& node, std::span<const Datum> operands,
                                           ThreadPool& pool, const std::shared_ptr<Budget>& budget);

}  // namespace xyntra
