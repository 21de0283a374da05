// The weights of an artifact on their way into its file: constants of all levels one after another, equal contents once.
//
// They are never in memory as a whole. A chunk is packed, hashed and written while it is in a cache, by as many threads as there are;
// what a chunk holds does not depend on who makes it.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "support/files/stored_zip.h"
#include "types/tensor_layout.h"

namespace xyntra {

class ArtifactWeights {
 public:
  std::uint64_t add(PackedTensor tensor);  // its offset, that of an equal one where there is one

  std::size_t size() const { return size_; }
  std::size_t count() const { return placed_.size(); }
  std::size_t blocks() const;  // of runtime/artifact/weight_blocks.h

  struct Sums {
    std::vector<std::uint64_t> block_hashes;
    std::uint32_t checksum = 0;  // crc32() of all
  };
  Result<Sums> write(const WriteAt& write_at) const;

 private:
  struct Placed {
    std::uint64_t offset = 0;
    PackedTensor tensor;
    mutable std::optional<std::uint64_t> hash = {};  // of all of it; computed for those that look equal
  };
  const Placed* equal_to(const Placed& fresh, std::uint64_t sample) const;
  void copy(std::uint64_t offset, std::span<std::byte> to) const;

  std::vector<Placed> placed_;  // by offset
  std::unordered_multimap<std::uint64_t, std::size_t> samples_;  // places in placed_; only looked up
  std::size_t size_ = 0;
};

}  // namespace xyntra
