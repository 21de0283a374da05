// Which kernels LLVM gets together, as one module.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kir/kernel.h"

namespace xyntra {

// Numbers of the kernels of each module: a few that differ, with all that are like one of them but for integers, which are
// compiled once (merge_functions.h). The same whatever the number of threads, so that the same kernels give the same bytes.
std::vector<std::vector<std::size_t>> partition_kernels(std::span<const kir::Kernel> kernels);

}  // namespace xyntra
