// A hash that finds damage, not forgery: as fast as memory is read, the same on every machine.
//
// Words of eight bytes go into eight lanes in turn, lane = mix(lane ^ word) * odd. Each step can be undone where the word is
// known, so that content that differs in one word only, such as by a flipped bit, never has the same hash; anything else has
// it by chance, once in 2^64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace xyntra {

class BlockHash {
 public:
  void update(std::span<const std::byte> bytes);
  std::uint64_t finish();  // once; the object is used up

 private:
  static constexpr std::size_t kLanes = 8, kStripe = 8 * kLanes;  // bytes
  using Lanes = std::array<std::uint64_t, kLanes>;
  static void absorb(Lanes& lanes, std::span<const std::byte> stripes);  // whole ones

  Lanes lanes_ = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
                  0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3};
  std::array<std::byte, kStripe> pending_{};
  std::size_t pending_size_ = 0;
  std::uint64_t total_bytes_ = 0;
};

std::uint64_t block_hash(std::span<const std::byte> bytes);

}  // namespace xyntra
