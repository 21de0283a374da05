// What stands behind the classes of cuda.h. Seen by this folder alone.
#pragma once

#include <atomic>
#include <mutex>

#include "runtime/drivers/cuda.h"
#include "runtime/drivers/cuda/library.h"

namespace xyntra::cuda {

struct Device::State {
  Chip chip;
  CUdevice device = 0;
  CUcontext context = nullptr;
  bool overlaps = false;  // launches may begin before the one ahead of them has ended, in graphs too
  std::atomic<bool> lost{false};
  std::mutex mutex;
  std::string loss;  // why, under the mutex

  // Nothing where the call succeeded. What ends a context for good is remembered.
  Status status(CUresult result, const std::string& doing);
  Status usable();
  void lose(const std::string& why);
};

// The context is the thread's current one while this lives, and the one before it is again afterwards.
class Current {
 public:
  explicit Current(const Device::State& state) {
    pushed_ = opened_library().CtxPushCurrent(state.context) == kSuccess;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) opened_library().CtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool pushed_ = false;
};

struct Buffer::State {
  std::shared_ptr<Device::State> device;
  CUdeviceptr address = 0;
  std::int64_t bytes = 0;
  bool borrowed = false;

  State(std::shared_ptr<Device::State> on, CUdeviceptr at, std::int64_t size)
      : device(std::move(on)), address(at), bytes(size) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (address == 0 || borrowed || device->lost.load()) return;
    const Current current(*device);
    opened_library().MemFree(address);
  }
};

}  // namespace xyntra::cuda
