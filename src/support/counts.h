// What a loaded model has done so far: for whoever has to see that sizes which change compile nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace xyntra {

struct RunCounts {
  std::atomic<std::uint64_t> compiles = 0;  // programs made of a plan
  std::atomic<std::uint64_t> runs = 0;
  std::atomic<std::uint64_t> bindings =
      0;  // runs at other sizes than the one before: offsets are computed anew
  std::atomic<std::uint64_t> dispatches = 0, submissions = 0;  // to a device with a queue
  std::atomic<bool> times_device = false;  // by whoever counts: what runs take there is added up
  std::atomic<std::uint64_t> device_ns = 0;
  std::atomic<std::uint64_t> copies = 0;  // of inputs that a result extends, where it was not in their memory
};

}  // namespace xyntra
