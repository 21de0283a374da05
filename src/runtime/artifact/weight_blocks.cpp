#include "runtime/artifact/weight_blocks.h"

#include <algorithm>
#include <mutex>

namespace xyntra {
namespace {

constexpr std::size_t kSmallestBlock = 4096, kLargestBlock = std::size_t{1} << 30;
constexpr std::int64_t kGrain = 4;  // blocks that a thread takes at a time

}  // namespace

std::vector<std::byte> to_bytes(std::span<const std::uint64_t> block_hashes) {
  ByteWriter writer;
  writer.number(kWeightBlock);
  for (std::uint64_t hash : block_hashes) writer.number(hash);
  return std::move(writer.bytes);
}

Result<std::shared_ptr<const WeightBlocks>> WeightBlocks::read(std::span<const std::byte> hashes,
                                                               std::span<const std::byte> weights,
                                                               std::string file) {
  ByteReader reader(hashes, "the hashes of the weights");
  XYNTRA_TRY(const std::uint64_t block_bytes, reader.number());
  if (block_bytes < kSmallestBlock || block_bytes > kLargestBlock)
    return reader.bad("blocks of " + std::to_string(block_bytes) + " bytes make no sense");
  std::shared_ptr<WeightBlocks> made(new WeightBlocks());
  made->weights_ = weights;
  made->block_bytes_ = static_cast<std::size_t>(block_bytes);
  made->file_ = std::move(file);
  const std::size_t count = weights.size() / made->block_bytes_ + (weights.size() % made->block_bytes_ != 0);
  if (hashes.size() / 8 != count + 1 || hashes.size() % 8 != 0)
    return reader.bad("they are not as many as the weights have blocks");
  for (std::size_t i = 0; i < count; ++i) {
    XYNTRA_TRY(const std::uint64_t hash, reader.number());
    made->hashes_.push_back(hash);
  }
  made->sound_ = std::vector<std::atomic<bool>>(count);
  return made;
}

std::span<const std::byte> WeightBlocks::bytes_of(std::size_t block) const {
  const std::size_t begin = block * block_bytes_;
  return weights_.subspan(begin, std::min(block_bytes_, weights_.size() - begin));
}

bool WeightBlocks::is_sound(std::size_t block) const {
  return block_hash(bytes_of(block)) == hashes_.at(block);
}

std::vector<std::size_t> WeightBlocks::damaged(ThreadPool& pool) const {
  std::vector<std::size_t> found;
  std::mutex mutex;
  pool.parallel_for(0, static_cast<std::int64_t>(count()), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      if (is_sound(static_cast<std::size_t>(block))) continue;
      const std::lock_guard lock(mutex);
      found.push_back(static_cast<std::size_t>(block));
    }
  });
  std::ranges::sort(found);
  return found;
}

std::pair<std::size_t, std::size_t> WeightBlocks::of(std::span<const std::byte> part) const {
  if (part.empty()) return {0, 0};
  const std::size_t offset =
      reinterpret_cast<std::uintptr_t>(part.data()) - reinterpret_cast<std::uintptr_t>(weights_.data());
  return {offset / block_bytes_, (offset + part.size() - 1) / block_bytes_ + 1};
}

Status WeightBlocks::check(std::span<const std::byte> part, const std::string& name, ThreadPool& pool) const {
  const auto [first_block, block_after] = of(part);
  const auto first = static_cast<std::int64_t>(first_block), after = static_cast<std::int64_t>(block_after);
  std::atomic<std::int64_t> worst{after};  // the first that is damaged
  pool.parallel_for(first, after, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      std::atomic<bool>& sound = sound_[static_cast<std::size_t>(block)];
      if (sound.load(std::memory_order_relaxed)) continue;
      if (is_sound(static_cast<std::size_t>(block))) {
        sound.store(true, std::memory_order_relaxed);
        continue;
      }
      std::int64_t known = worst.load();
      while (block < known && !worst.compare_exchange_weak(known, block)) {
      }
    }
  });
  if (worst == after) return {};
  Error error;
  error.error_class = ErrorClass::BadModel;
  error.file = file_;
  error.message = "the weight '" + name + "' is damaged: block " + std::to_string(worst) + " of " +
                  std::to_string(count()) + " has another hash";
  error.hint = "xyntra check lists all that is damaged; copy the file again, or compile the model again";
  return failure(std::move(error));
}

}  // namespace xyntra
