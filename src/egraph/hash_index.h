// A hash table from keys that live elsewhere to numbers: the caller hashes and compares.
//
// Both tables of the e-graph (terms as written, nodes with canonical children) index arrays that exist
// anyway; storing a key twice would double their memory. Nothing ever walks the table, so the hash and its
// seed cannot show in a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xyntra::egraph {

// Mixes words into a hash, starting from a seed.
class Hasher {
 public:
  explicit Hasher(std::uint64_t seed) : state_(seed ^ 0x9e3779b97f4a7c15ull) {}
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0xff51afd7ed558ccdull;
    state_ ^= state_ >> 32;
  }
  std::uint64_t finish() const {
    std::uint64_t hash = state_ * 0xc4ceb9fe1a85ec53ull;
    return hash ^ (hash >> 29);
  }

 private:
  std::uint64_t state_;
};

class HashIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // The value stored under this hash for which equal(value) holds, or kNone.
  template <class Equal>
  std::uint32_t find(std::uint64_t hash, const Equal& equal) const {
    if (slots_.empty()) return kNone;
    const std::uint32_t tag = tag_of(hash);
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      if (slots_[at].value == kNone) return kNone;
      if (slots_[at].tag == tag && equal(slots_[at].value)) return slots_[at].value;
    }
  }

  void insert(std::uint64_t hash, std::uint32_t value);  // the caller knows that it is not there yet
  bool erase(std::uint64_t hash, std::uint32_t value);   // false when it was not there
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t tag = 0;
    std::uint32_t value = kNone;
  };
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  std::size_t mask() const { return slots_.size() - 1; }
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most 3/4 full
  std::size_t size_ = 0;
};

}  // namespace xyntra::egraph
