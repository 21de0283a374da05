// Calls that end the process where they fail: wgpu-native panics in wgpuQueueSubmit when the driver loses its device during
// the call, and a panic in a function for C is an abort. That abort is caught, on this thread and for the time of the call; by
// then the library has let go of its locks, and nothing of the device is used again.
#pragma once

#include <functional>

namespace xyntra::webgpu {

// Makes the call, which must hold nothing that has to be given back. False where it would have ended the process.
bool survives(const std::function<void()>& call);

}  // namespace xyntra::webgpu
