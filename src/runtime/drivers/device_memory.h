// What keeping copies of the host's memory on a device takes of the device.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "support/result.h"

namespace xyntra {

// Writes are done in the order of the device's other work.
template <class Device>
concept DeviceMemory = requires(Device& device, const typename Device::Buffer& buffer, std::int64_t number,
                                std::span<const std::byte> bytes) {
  { device.allocate(number) } -> std::same_as<Result<typename Device::Buffer>>;
  { device.write(buffer, number, bytes) } -> std::same_as<Status>;
  { device.most_bytes() } -> std::same_as<std::int64_t>;  // of one buffer
  { buffer.bytes() } -> std::same_as<std::int64_t>;
  typename Device::BufferRange;
};

// What ranges are made multiples of where that is possible: the largest alignment that a device may ask for.
inline constexpr std::int64_t kRangeStep = 256;

// `count` rows of `bytes` each, which begin `distance` bytes apart, here and there.
template <class Buffer>
struct RowsOf {
  const Buffer* from = nullptr;
  std::int64_t offset = 0;
  std::byte* to = nullptr;
  std::int64_t bytes = 0, distance = 0, count = 1;
};

}  // namespace xyntra
