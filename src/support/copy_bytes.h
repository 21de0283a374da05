// Bytes from one place to another, as fast as memory is. std::ranges::copy takes them one by one where the source is const
// (libstdc++ 12); std::copy does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace xyntra {

// `to` may be longer; the two do not overlap.
inline void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  const std::span<std::byte> taken = to.first(from.size());
  std::copy(from.begin(), from.end(), taken.begin());
}

}  // namespace xyntra
