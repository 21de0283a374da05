#include "support/hash/block_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace xyntra {
namespace {

constexpr std::uint64_t kOdd = 0x9fb21c651e98df25;
constexpr std::size_t kAhead = 2048;  // bytes: with this prefetch it is as fast as memory is read

// A product carries bits up only. The shift brings the highest down, so that no flipped bit becomes one that a flip in the next
// word undoes.
std::uint64_t step(std::uint64_t lane, std::uint64_t word) {
  const std::uint64_t mixed = lane ^ word;
  return (mixed ^ (mixed >> 29)) * kOdd;
}

// Every bit changes about half of the others: the last words of a lane have been multiplied once only.
std::uint64_t spread(std::uint64_t value) {
  for (int i = 0; i < 3; ++i) value = (value ^ (value >> 31)) * kOdd;
  return value ^ (value >> 32);
}

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::array<std::byte, 8> part;
  std::memcpy(part.data(), bytes.subspan(offset, 8).data(), 8);
  auto word = std::bit_cast<std::uint64_t>(part);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

}  // namespace

void BlockHash::absorb(Lanes& lanes, std::span<const std::byte> stripes) {
  auto [a, b, c, d, e, f, g, h] = lanes;  // by name, so that they stay in registers
  for (; stripes.size() >= kStripe; stripes = stripes.subspan(kStripe)) {
    if (stripes.size() > kAhead) __builtin_prefetch(&stripes[kAhead]);
    a = step(a, word_at(stripes, 0)), b = step(b, word_at(stripes, 8));
    c = step(c, word_at(stripes, 16)), d = step(d, word_at(stripes, 24));
    e = step(e, word_at(stripes, 32)), f = step(f, word_at(stripes, 40));
    g = step(g, word_at(stripes, 48)), h = step(h, word_at(stripes, 56));
  }
  lanes = {a, b, c, d, e, f, g, h};
}

void BlockHash::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (pending_size_ > 0) {
    const std::size_t taken = std::min(bytes.size(), kStripe - pending_size_);
    std::ranges::copy(bytes.first(taken), std::span(pending_).subspan(pending_size_).begin());
    pending_size_ += taken;
    bytes = bytes.subspan(taken);
    if (pending_size_ < kStripe) return;
    absorb(lanes_, pending_);
    pending_size_ = 0;
  }
  const std::size_t whole = bytes.size() / kStripe * kStripe;
  absorb(lanes_, bytes.first(whole));
  bytes = bytes.subspan(whole);
  std::ranges::copy(bytes, pending_.begin());
  pending_size_ = bytes.size();
}

std::uint64_t BlockHash::finish() {
  if (pending_size_ > 0) {  // the length tells padding from content
    std::ranges::fill(std::span(pending_).subspan(pending_size_), std::byte{0});
    absorb(lanes_, pending_);
  }
  std::uint64_t hash = spread(total_bytes_);
  for (std::uint64_t lane : lanes_) hash = step(hash, spread(lane));
  return spread(hash);
}

std::uint64_t block_hash(std::span<const std::byte> bytes) {
  BlockHash hash;
  hash.update(bytes);
  return hash.finish();
}

}  // namespace xyntra
