// Where the decisions of a random graph come from: a seed, or the bytes of a fuzzer. Bytes that ran out decide 0, which
// is always the plainest choice, so every list of choices begins with the plainest one.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace xyntra::graphs {

class Decisions {
 public:
  explicit Decisions(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 0x632be59bd9b4e019U) {}
  explicit Decisions(std::span<const std::uint8_t> bytes) : bytes_(bytes), from_bytes_(true) {}

  bool exhausted() const { return from_bytes_ && next_ >= bytes_.size(); }

  std::int64_t below(std::int64_t count) {
    if (count <= 1) return 0;
    if (!from_bytes_) return static_cast<std::int64_t>(mixed() % static_cast<std::uint64_t>(count));
    std::int64_t value = byte();
    if (count > 256) value = value * 256 + byte();
    return value % count;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) >= 100 - percent; }  // bytes that ran out say no

  template <class List>
  const auto& one_of(const List& list) {
    return *(std::begin(list) + below(static_cast<std::int64_t>(std::size(list))));
  }

  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[i - 1 - static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }
  }

 private:
  std::uint64_t mixed() {  // SplitMix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  std::uint8_t byte() { return next_ < bytes_.size() ? bytes_[next_++] : 0; }

  std::uint64_t state_ = 0;
  std::span<const std::uint8_t> bytes_;
  std::size_t next_ = 0;
  bool from_bytes_ = false;
};

}  // namespace xyntra::graphs
