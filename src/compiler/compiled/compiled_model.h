// A plan that can be run, on whatever backend it was made for.
#pragma once

#include "runtime/executable.h"

namespace xyntra {

struct CompiledModel {
  std::shared_ptr<const LaunchProgram> program;
  std::shared_ptr<const HostCalls> host;
  std::size_t kernels = 0, code_bytes = 0;
  std::shared_ptr<const KernelDriver> driver = {};  // null: kernels are machine code
};

}  // namespace xyntra
