// What a test may ask of the fake CUDA driver, by dlsym on the library that it is.
#pragma once

#include <cstdint>

// Since it was loaded.
struct FakeCounts {
  std::uint64_t linked = 0;  // texts that machine code was made of
  std::uint64_t loaded_code = 0, loaded_text = 0;  // modules
  std::uint64_t launches = 0;
  std::uint64_t written = 0, read = 0, moved = 0;  // bytes: to the device, from it, on it
  std::uint64_t waits = 0;  // of streams for events
  std::uint64_t tensor_maps = 0;  // encoded
};

// What a tensor map was encoded of, as the driver is told: the innermost dimension first.
struct FakeTensorMap {
  std::uint64_t address = 0;
  unsigned rank = 0;
  int type = 0, swizzle = 0;
  std::uint64_t extents[5] = {}, strides[5] = {};
  std::uint32_t box[5] = {};
};

extern "C" {
FakeCounts fake_cuda_counts();
FakeTensorMap fake_cuda_tensor_map(unsigned number);  // in the order in which they were encoded
bool fake_cuda_last_launch_has(std::uint64_t parameter);  // among the first two parameters
}
