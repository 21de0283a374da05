#include "package/artifact_weights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "runtime/artifact/artifact.h"
#include "support/hash/block_hash.h"
#include "support/limits/current_budget.h"
#include "support/limits/stop_hook.h"
#include "support/limits/threads.h"

namespace xyntra {
namespace {

constexpr std::size_t kPageFrom = 64 << 10;  // bytes; constants from this size on start at a page
constexpr std::size_t kChunk = 8 * kWeightBlock;  // a quarter of an L2 cache
constexpr std::size_t kSample = 256;  // bytes
constexpr std::size_t kSamples = 4;

// Tells most contents apart, at the price of a few rows.
std::uint64_t sample_of(const PackedTensor& tensor) {
  BlockHash hash;
  std::array<std::byte, kSample> bytes;
  const std::uint64_t size = tensor.bytes();
  hash.update(std::as_bytes(std::span(&size, 1)));
  const std::size_t taken = std::min(kSample, tensor.bytes());
  for (std::size_t i = 0; i < kSamples; ++i) {
    const auto part = std::span(bytes).first(taken);
    tensor.copy((tensor.bytes() - taken) / (kSamples - 1) * i, part);
    hash.update(part);
  }
  return hash.finish();
}

// Calls `body` with each chunk, in order; ends where it returns false.
template <class Body>
bool for_each_chunk(std::size_t size, const Body& body) {
  for (std::size_t begin = 0; begin < size; begin += kChunk) {
    poll_limits(kChunk >> 12);
    if (!body(begin, std::min(kChunk, size - begin))) return false;
  }
  return true;
}

std::uint64_t hash_of(const PackedTensor& tensor) {
  BlockHash hash;
  std::vector<std::byte> chunk(std::min(kChunk, tensor.bytes()));
  for_each_chunk(tensor.bytes(), [&](std::size_t begin, std::size_t size) {
    tensor.copy(begin, std::span(chunk).first(size));
    hash.update(std::span(chunk).first(size));
    return true;
  });
  return hash.finish();
}

bool are_equal(const PackedTensor& a, const PackedTensor& b) {
  std::vector<std::byte> of_a(std::min(kChunk, a.bytes())), of_b(of_a.size());
  return for_each_chunk(a.bytes(), [&](std::size_t begin, std::size_t size) {
    a.copy(begin, std::span(of_a).first(size));
    b.copy(begin, std::span(of_b).first(size));
    return std::ranges::equal(std::span(of_a).first(size), std::span(of_b).first(size));
  });
}

std::size_t aligned(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) & ~(alignment - 1);
}

}  // namespace

const ArtifactWeights::Placed* ArtifactWeights::equal_to(const Placed& fresh, std::uint64_t sample) const {
  const auto full_hash = [](const Placed& placed) {
    if (!placed.hash) placed.hash = hash_of(placed.tensor);
    return *placed.hash;
  };
  const auto [first, last] = samples_.equal_range(sample);
  for (auto known = first; known != last; ++known) {
    const Placed& other = placed_[known->second];
    if (other.tensor.bytes() != fresh.tensor.bytes()) continue;
    if (other.tensor.has_same_source(fresh.tensor)) return &other;
    if (full_hash(other) == full_hash(fresh) && are_equal(other.tensor, fresh.tensor)) return &other;
  }
  return nullptr;
}

std::uint64_t ArtifactWeights::add(PackedTensor tensor) {
  const std::uint64_t sample = sample_of(tensor);
  Placed fresh{0, std::move(tensor)};
  if (const Placed* known = equal_to(fresh, sample)) return known->offset;
  const std::size_t bytes = fresh.tensor.bytes();
  fresh.offset = aligned(size_, bytes >= kPageFrom ? kArtifactAlignment : kConstantAlignment);
  size_ = fresh.offset + bytes;
  samples_.emplace(sample, placed_.size());
  placed_.push_back(std::move(fresh));
  return placed_.back().offset;
}

std::size_t ArtifactWeights::blocks() const { return (size_ + kWeightBlock - 1) / kWeightBlock; }

void ArtifactWeights::copy(std::uint64_t offset, std::span<std::byte> to) const {
  const std::uint64_t end = offset + to.size();
  auto placed = std::ranges::upper_bound(placed_, offset, {}, &Placed::offset);
  if (placed != placed_.begin()) --placed;
  std::uint64_t written = offset;
  for (; placed != placed_.end() && placed->offset < end; ++placed) {
    const std::uint64_t from = std::max(placed->offset, offset);
    const std::uint64_t until = std::min(placed->offset + placed->tensor.bytes(), end);
    if (until <= from) continue;
    std::ranges::fill(to.subspan(written - offset, from - written), std::byte{});  // padding
    placed->tensor.copy(from - placed->offset, to.subspan(from - offset, until - from));
    written = until;
  }
  std::ranges::fill(to.subspan(written - offset), std::byte{});
}

Result<ArtifactWeights::Sums> ArtifactWeights::write(const WriteAt& write_at) const {
  const std::size_t chunks = (size_ + kChunk - 1) / kChunk;
  Sums sums;
  sums.block_hashes.resize(blocks());
  std::vector<std::uint32_t> checksums(chunks);
  std::mutex mutex;
  Status failed;  // of any chunk: all of them would say the same
  std::atomic<bool> stopped{false};
  const auto write_chunks = [&](std::int64_t first, std::int64_t last) {
    const NoStopHook hold;  // the file is a temporary one
    std::vector<std::byte> memory(kChunk);
    for (auto c = static_cast<std::size_t>(first); c < static_cast<std::size_t>(last) && !stopped; ++c) {
      const std::size_t begin = c * kChunk;
      const auto chunk = std::span(memory).first(std::min(kChunk, size_ - begin));
      copy(begin, chunk);
      for (std::size_t at = 0; at < chunk.size(); at += kWeightBlock) {
        sums.block_hashes[(begin + at) / kWeightBlock] =
            block_hash(chunk.subspan(at, std::min(kWeightBlock, chunk.size() - at)));
      }
      checksums[c] = crc32(chunk);
      if (Status written = write_at(begin, chunk); !written) {
        const std::lock_guard lock(mutex);
        failed = std::move(written);
        stopped = true;
      }
    }
  };
  constexpr std::int64_t kGrain = 4;  // chunks
  ThreadPool::shared().parallel_for(0, static_cast<std::int64_t>(chunks), kGrain, write_chunks);
  XYNTRA_CHECK_OK(std::move(failed));
  for (std::size_t c = 0; c < chunks; ++c)
    sums.checksum = crc32_combine(sums.checksum, checksums[c], std::min(kChunk, size_ - c * kChunk));
  return sums;
}

}  // namespace xyntra
