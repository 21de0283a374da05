// Memory for tensors: zero-filled, aligned for vectors and cache lines, and lazy, so that a large block costs
// address space until it is written. Refused by returning null, never by an exception or an abort.
#pragma once

#include <cstddef>
#include <memory>

namespace xyntra {

inline constexpr std::size_t kTensorAlignment = 64;

// At least one byte, so that the address of an empty tensor is valid and distinct.
std::shared_ptr<std::byte> allocate_zeroed(std::size_t bytes);

bool is_aligned(const void* address, std::size_t alignment);

}  // namespace xyntra
