#include "support/hash/block_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace xyntra {
namespace {

std::vector<std::byte> content(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = 7;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// Artifacts are read on other machines than they are written on, and by later versions.
TEST(BlockHash, IsTheSameEverywhere) {
  EXPECT_EQ(0x91ab38f889e7dd69U, block_hash({}));
  EXPECT_EQ(0xdce4fe9a378560cfU, block_hash(content(1)));
  EXPECT_EQ(0xe8854d0eb13fc679U, block_hash(content(64)));
  EXPECT_EQ(0x2b6e45d5856c0eaeU, block_hash(content(1000)));
}

TEST(BlockHash, DoesNotDependOnThePieces) {
  const std::vector<std::byte> whole = content(1000);
  for (std::size_t piece : {1, 7, 63, 64, 65, 200, 999}) {
    BlockHash hash;
    for (std::size_t at = 0; at < whole.size(); at += piece)
      hash.update(std::span(whole).subspan(at, std::min(piece, whole.size() - at)));
    EXPECT_EQ(block_hash(whole), hash.finish()) << piece;
  }
}

TEST(BlockHash, EveryFlippedBitIsSeen) {
  for (std::size_t size : {1, 8, 64, 65, 200}) {
    std::vector<std::byte> bytes = content(size);
    std::set<std::uint64_t> seen{block_hash(bytes)};
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(seen.insert(block_hash(bytes)).second) << size << ", bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

// Two flips of one lane's highest bits would undo each other if words were only multiplied.
TEST(BlockHash, PairsOfFlippedBitsAreSeen) {
  std::vector<std::byte> bytes = content(512);
  const std::uint64_t before = block_hash(bytes);
  for (std::size_t first = 7; first < 512; first += 8) {
    for (std::size_t second = first + 8; second < 512; second += 8) {
      bytes[first] ^= std::byte{0x80}, bytes[second] ^= std::byte{0x80};
      EXPECT_NE(before, block_hash(bytes)) << first << ", " << second;
      bytes[first] ^= std::byte{0x80}, bytes[second] ^= std::byte{0x80};
    }
  }
}

TEST(BlockHash, LengthsAreTold) {
  std::set<std::uint64_t> seen;
  for (std::size_t size = 0; size < 300; ++size)
    EXPECT_TRUE(seen.insert(block_hash(std::vector<std::byte>(size))).second) << size;
}

}  // namespace
}  // namespace xyntra
