// The weights of an artifact, hashed in blocks of equal size, so that a damaged one is found before anything reads it, at the
// price of what is read. A block is compared once, by whoever needs it first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/files/byte_stream.h"
#include "support/hash/block_hash.h"
#include "support/limits/threads.h"

namespace xyntra {

inline constexpr std::size_t kWeightBlock = 64 << 10;  // bytes

// For who writes them: as WeightBlocks::read takes them, the size of a block, then a hash of each.
std::vector<std::byte> to_bytes(std::span<const std::uint64_t> block_hashes);

class WeightBlocks {
 public:
  // `file` is for messages. BadModel error where the hashes are not as many as the weights have blocks.
  static Result<std::shared_ptr<const WeightBlocks>> read(std::span<const std::byte> hashes,
                                                          std::span<const std::byte> weights,
                                                          std::string file);

  std::size_t count() const { return hashes_.size(); }
  // Of those that part of the weights lies in: the first, and the one after the last.
  std::pair<std::size_t, std::size_t> of(std::span<const std::byte> part) const;
  bool is_sound(std::size_t block) const;  // compares it, known or not
  std::vector<std::size_t> damaged(ThreadPool& pool) const;  // of all

  // BadModel error where a block that `part` of the weights lies in is damaged; `name` is that of the weight.
  Status check(std::span<const std::byte> part, const std::string& name, ThreadPool& pool) const;

 private:
  WeightBlocks() = default;
  std::span<const std::byte> bytes_of(std::size_t block) const;

  std::span<const std::byte> weights_;
  std::vector<std::uint64_t> hashes_;
  std::size_t block_bytes_ = kWeightBlock;
  std::string file_;
  mutable std::vector<std::atomic<bool>> sound_;  // seen to be
};

}  // namespace xyntra
