// The simulator: runs a kernel exactly as kernel.h says, on no machine in particular, and reports what a machine would
// let pass: accesses outside a buffer, reads of what nobody wrote, threads or work items that race, barriers that not
// every thread reaches, barriers of asynchronous copies used in the wrong phase.
//
// Many work items run at the same time, each statement for all of them: they are the lanes of te/lanes.h. A race is found
// by what each element was touched by and whether a barrier stands in between, not by luck of timing, so one run is
// enough.
#pragma once

#include <span>

#include "kir/kernel.h"

namespace xyntra::kir {

struct SimOptions {
  // Outputs that hold values before the run, by position among the arguments: a cache that is updated in place.
  std::vector<std::size_t> defined_outputs;
  std::int64_t most_bytes = std::int64_t{4} << 30;  // of workspace, shared memory and registers
};

struct SimReport {
  std::int64_t work_items = 0;
  std::int64_t statements = 0;  // executed, counted once per lane
  std::int64_t loads = 0, stores = 0;  // of single elements
  std::int64_t barriers = 0;  // counted once per work item
};

// `arguments` are the Global buffers in order, dense, elements of less than a byte packed. Sizes are those of `bindings`.
// A broken rule is an error of class Internal with the line of the kernel's text and the values of the loops around it;
// a failed `check` is one of class BadModel.
Result<SimReport> simulate(const Kernel& kernel, std::span<const std::span<std::byte>> arguments,
                           const SymbolBindings& bindings = {}, const SimOptions& options = {});

}  // namespace xyntra::kir
