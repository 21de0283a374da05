// How machine code of a kernel is called. Shared by who generates it and who runs it; no C++ in it, so that an artifact
// made by one version of a compiler runs with another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xyntra {

// Which index was outside which buffer, where a kernel had to look.
struct KernelFault {
  std::int32_t buffer = -1;  // position among the kernel's buffers
  std::int32_t dimension = 0;
  std::int64_t index = 0;
};

struct KernelCall {
  std::byte* const* buffers;  // by position: the kernel's arguments, then its workspace buffers
  const std::int64_t*
      sizes;  // values of the kernel's symbolic sizes, in the order that its code was made with
  KernelFault* fault;  // written by the first work item of a chunk that finds an index outside
};

// Work items [begin, end) of one phase. `scratch` is this worker's, aligned to 64 bytes. Returns 0, or 1 after a fault.
using PhaseFunction = std::int32_t (*)(const KernelCall* call, std::int64_t begin, std::int64_t end,
                                       std::byte* scratch);

}  // namespace xyntra
