// Which kernels LLVM gets together, as one module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kir/kernel.h"

namespace xyntra {

struct KernelModule {
  std::vector<std::size_t> kernels;  // their numbers
  std::size_t first_phase = 0,
              phase_end = SIZE_MAX;  // of each of them; the other phases are in other modules
  std::int64_t effort = 0;  // about how long LLVM works on it
};

// A few kernels that differ, with all that are like one of them but for integers, which are compiled once (merge_functions.h). Where one
// alone is long, such as attention, its phases are modules of their own. The same whatever the number of threads, so that the same
// kernels give the same bytes.
std::vector<KernelModule> partition_kernels(std::span<const kir::Kernel> kernels);

}  // namespace xyntra
