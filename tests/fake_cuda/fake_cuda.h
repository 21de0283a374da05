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
};

extern "C" {
FakeCounts fake_cuda_counts();
bool fake_cuda_last_launch_has(std::uint64_t parameter);  // among the first two parameters
}
