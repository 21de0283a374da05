// Sorting under limits: std::sort on pieces, merged with looks at the clock in between.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/host_context.h"

namespace xyntra {

// Items in order of <, which must tell all of them apart where their order matters.
template <class T>
Status sort_under_limits(const HostContext& c, std::vector<T>& items) {
  constexpr std::size_t kPiece = 1 << 14;
  auto at = [](std::vector<T>& all, std::size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
  const std::size_t count = items.size();
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    std::sort(at(items, begin), at(items, std::min(begin + kPiece, count)));
    XYNTRA_CHECK_OK(c.worked(kPiece * 4));
  }
  if (count <= kPiece) return {};
  Charge scratch(c.budget());
  XYNTRA_CHECK_OK(scratch.grow(static_cast<std::int64_t>(count * sizeof(T))));
  std::vector<T> merged(count);
  for (std::size_t width = kPiece; width < count; width *= 2) {
    std::size_t to = 0;
    for (std::size_t begin = 0; begin < count; begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, count), end = std::min(begin + 2 * width, count);
      std::size_t left = begin, right = middle;
      while (left < middle || right < end) {
        const bool take_left = left < middle && (right == end || !(items[right] < items[left]));
        merged[to++] = items[take_left ? left++ : right++];
        if (to % kPiece == 0) XYNTRA_CHECK_OK(c.worked(kPiece));
      }
    }
    items.swap(merged);
  }
  return {};
}

}  // namespace xyntra
