// Short arrays that never move: a span handed out stays valid while the pool lives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace xyntra::egraph {

template <class T>
class StablePool {
 public:
  template <class Range>
  std::span<T> copy(const Range& values) {
    if (values.size() == 0) return {};
    if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < values.size()) {
      chunks_.emplace_back();
      chunks_.back().reserve(std::max(kChunk, values.size()));
    }
    std::vector<T>& chunk = chunks_.back();
    const std::size_t begin = chunk.size();
    chunk.insert(chunk.end(), values.begin(), values.end());  // within the capacity: nothing moves
    return std::span<T>(chunk).subspan(begin, values.size());
  }

 private:
  static constexpr std::size_t kChunk = 1 << 14;
  std::vector<std::vector<T>> chunks_;
};

}  // namespace xyntra::egraph
