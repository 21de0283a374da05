// Inputs and outputs that lie in the memory of a device, for the time of a run: their bytes are addresses of the device, which nobody but its driver
// reads.
#pragma once

#include <cstdint>
#include <vector>

namespace xyntra {

struct BoundMemory {
  std::vector<bool> inputs, outputs;  // by position; those beyond the end lie in the host's memory
  std::uint64_t stream =
      0;  // the caller's: the run begins after what it holds, and what it is given later begins after the run

  static bool has(const std::vector<bool>& list, std::size_t position) {
    return position < list.size() && list[position];
  }
};

}  // namespace xyntra
