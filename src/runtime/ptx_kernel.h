// A kernel as PTX text: what its code generator hands to the driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "types/dim.h"

namespace xyntra {

struct PtxPhase {
  std::string entry;
  Dim items;
  std::int64_t threads = 1;  // of a thread block
  std::int64_t items_per_block = 1;  // as many as threads where each thread does a work item of its own
  std::int64_t shared_bytes = 0;  // dynamic shared memory of a thread block
};

// What a copy of boxes is told of the memory that it copies (a CUtensorMap, which the driver of the GPU encodes for a launch).
struct PtxTensorMap {
  std::size_t address = 0;  // number of the parameter that has it
  int element_bytes = 1;  // bits are moved as they are, whatever the dtype
  std::vector<Dim> shape;  // the outermost dimension first, rows one after another
  std::vector<std::int64_t> box;  // extents along all dimensions; its elements are neighbours
  bool swizzled = false;  // in shared memory: rows of 128 bytes, their chunks of 16 permuted
  bool operator==(const PtxTensorMap&) const = default;
};

// Parameters of every entry, in this order: addresses of the kernel's arguments, of its workspace buffers, of the fault record where it
// looks at an index; then the sizes, all of them 64 bits; then tensor maps of 128 bytes.
struct PtxKernel {
  std::string text;
  std::vector<PtxPhase> phases;
  std::vector<Dim> sizes;
  std::vector<Dim> argument_elements;
  std::vector<Dim> workspace_bytes;
  std::vector<PtxTensorMap> maps;
  bool has_faults = false;
  bool overlaps = false;  // it waits for what was launched before it, and may be brought to the cores earlier
  bool wide = false;  // positions have 64 bits; otherwise nothing may have more than kMostNarrow elements
};

// What 32 bits count, with room for the last tile beyond the end.
inline constexpr std::int64_t kMostNarrow = INT32_MAX - (1 << 20);

// Written by the first thread that finds an index outside: whether, which buffer, which dimension; then which index.
struct PtxFault {
  std::uint32_t found = 0, buffer = 0, dimension = 0, unused = 0;
  std::int64_t index = 0;
};

}  // namespace xyntra
