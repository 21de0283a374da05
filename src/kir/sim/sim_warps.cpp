// Warps: asynchronous copies of their threads, matrix fragments in their registers.
#include <algorithm>
#include <array>
#include <cstring>

#include "kir/intrinsics.h"
#include "kir/sim/sim_runner.h"

namespace xyntra::kir::sim {
namespace {

constexpr std::size_t kWarp = static_cast<std::size_t>(kWarpThreads), kHalf = 2, kMatrices = 4;

}  // namespace

std::uint32_t Runner::thread_copy_agent(std::uint32_t thread) const { return store_agent() + 1 + thread; }

bool Runner::is_aligned(const Box& box, std::uint32_t thread) const {
  const std::int64_t first = copy_of(box.buffer, thread) * program_.buffers[box.buffer.index].elements;
  return (place_in(box, 0, 0, thread) - first) % kChunkElements == 0;
}

// ---- asynchronous copies

bool Runner::async_copy(const Context& context, const Step& step, std::size_t lane) {
  const std::uint32_t thread = lanes(context).thread[lane];
  Box to, from;
  if (!find_box(context, step, 0, lane, to)) return false;
  Elements elements(static_cast<std::size_t>(kChunkElements) * kHalf, std::byte{0});
  Toucher by = toucher(thread);
  bool aligned = is_aligned(to, thread);
  if (number(step, 0, lane) != 0) {
    if (!find_box(context, step, 1, lane, from)) return false;
    aligned = aligned && is_aligned(from, thread);
    if (!read_box(context, step, from, lane, by, elements)) return false;
  }
  if (!aligned) return fault(context, step, lane, "a copy of 16 bytes begins where none may");
  ThreadCopies& copies = thread_copies_[thread];
  copies.last = copies.formed;
  by.epoch = {thread_copy_agent(thread), copies.formed};
  return write_box(context, step, to, lane, by, elements);
}

void Runner::async_commit(const Context& context) {
  for (std::uint32_t thread : lanes(context).thread) {
    if (thread >= thread_copies_.size()) continue;
    thread_copies_[thread].committed = thread_copies_[thread].formed++;
  }
}

bool Runner::async_wait(const Context& context, const Step& step) {
  const LaneSet& set = lanes(context);
  for (std::size_t i = 0; i < set.size(); ++i) {
    const std::uint32_t thread = set.thread[i];
    if (thread >= thread_copies_.size()) continue;
    const std::int64_t in_flight = number(step, 0, i);
    if (in_flight < 0) return fault(context, step, i, "a negative number of groups");
    ThreadCopies& copies = thread_copies_[thread];
    const std::int64_t done = std::max<std::int64_t>(copies.committed - in_flight, 0);
    copies.completed = std::max(copies.completed, static_cast<std::uint32_t>(done));
    orders_[0].acquire(thread, {thread_copy_agent(thread), copies.completed});
  }
  return true;
}

// ---- fragments

bool Runner::warp_call(const Context& context, const Step& step) {
  const LaneSet& set = lanes(context);
  std::map<std::uint32_t, std::vector<std::size_t>> warps;  // lanes, in the order of threads
  for (std::size_t i = 0; i < set.size(); ++i) warps[set.thread[i] / kWarpThreads].push_back(i);
  const bool loads = step.node->intrinsic == Intrinsic::LoadFragment ||
                     step.node->intrinsic == Intrinsic::LoadFragmentTransposed;
  for (const auto& [warp, present] : warps) {
    if (present.size() != kWarp) {
      return fault(context, step, present.front(),
                   "only " + std::to_string(present.size()) + " of 32 threads of a warp reach this " +
                       spelling_of(step.node->intrinsic));
    }
    if (!(loads ? load_fragment(context, step, present) : warp_multiply(context, step, present)))
      return false;
  }
  return true;
}

// Each element is read by the thread that gets it, wherever its row was named.
bool Runner::load_fragment(const Context& context, const Step& step, std::span<const std::size_t> warp) {
  const bool transposed = step.node->intrinsic == Intrinsic::LoadFragmentTransposed;
  const LaneSet& set = lanes(context);
  std::vector<Box> rows(kWarp);
  for (std::size_t t = 0; t < kWarp; ++t) {
    if (!find_box(context, step, 1, warp[t], rows[t])) return false;
    if (!is_aligned(rows[t], set.thread[warp[t]]))
      return fault(context, step, warp[t], "a row of 16 bytes begins where none may");
  }
  Storage& storage = storages_[rows[0].buffer.index];
  for (std::size_t t = 0; t < kWarp; ++t) {
    const std::uint32_t thread = set.thread[warp[t]];
    const Toucher by = toucher(thread);
    Elements words(kMatrices * 2 * kHalf);
    for (std::size_t at = 0; at < kMatrices * 2; ++at) {
      const std::size_t pair = 2 * (t % 4) + at % 2, line = t / 4;
      const Box& row = rows[at / 2 * 8 + (transposed ? pair : line)];
      const std::int64_t place =
          place_in(row, 0, static_cast<std::int64_t>(transposed ? line : pair), thread);
      if (storage.tracks_reads() && !touch_read(context, step, row.buffer, warp[t], place, by)) return false;
      std::memcpy(&words[at * kHalf], storage.data() + place * static_cast<std::int64_t>(kHalf), kHalf);
    }
    Box registers;
    if (!find_box(context, step, 0, warp[t], registers)) return false;
    if (!write_box(context, step, registers, warp[t], by, words)) return false;
  }
  report_.loads += static_cast<std::int64_t>(kWarp * kMatrices * 2);
  return true;
}

bool Runner::round_words(const Context& context, const Step& step, std::size_t lane) {
  constexpr int kElements = 8;
  const DType dtype = step.node->intrinsic == Intrinsic::RoundWordsF16 ? DType::F16 : DType::BF16;
  const Toucher by = toucher(lanes(context).thread[lane]);
  Box words, floats;
  Elements elements;
  if (!find_box(context, step, 0, lane, words) || !find_box(context, step, 1, lane, floats) ||
      !read_box(context, step, floats, lane, by, elements))
    return false;
  std::array<float, kElements> held{};
  te::load_lanes(DType::F32, held.data(), elements.data(), 1, kElements);
  elements.resize(kElements * kHalf);
  te::store_lanes(dtype, elements.data(), 1, held.data(), kElements);
  return write_box(context, step, words, lane, by, elements);
}

bool Runner::warp_multiply(const Context& context, const Step& step, std::span<const std::size_t> warp) {
  constexpr std::size_t kRows = 16, kColumns = 8, kDepth = 16;
  const DType dtype = step.node->intrinsic == Intrinsic::WarpMultiplyF16 ? DType::F16 : DType::BF16;
  std::array<float, kRows * kDepth> a{};
  std::array<float, kDepth * kColumns> b{};
  std::array<float, kRows * kColumns> c{};
  std::vector<Box> sums(kWarp);
  auto at_c = [](std::size_t t, std::size_t i) {
    return (t / 4 + 8 * (i / 2)) * kColumns + 2 * (t % 4) + i % 2;
  };
  Elements elements;
  for (std::size_t t = 0; t < kWarp; ++t) {
    const Toucher by = toucher(lanes(context).thread[warp[t]]);
    Box left, right;
    if (!find_box(context, step, 0, warp[t], sums[t]) || !find_box(context, step, 1, warp[t], left) ||
        !find_box(context, step, 2, warp[t], right))
      return false;
    std::array<float, 8> halves{};
    if (!read_box(context, step, left, warp[t], by, elements)) return false;
    te::load_lanes(dtype, halves.data(), elements.data(), 1, 8);
    for (std::size_t i = 0; i < 8; ++i)
      a.at((t / 4 + 8 * (i / 2 % 2)) * kDepth + 8 * (i / 4) + 2 * (t % 4) + i % 2) = halves.at(i);
    if (!read_box(context, step, right, warp[t], by, elements)) return false;
    te::load_lanes(dtype, halves.data(), elements.data(), 1, 4);
    for (std::size_t i = 0; i < 4; ++i)
      b.at((8 * (i / 2) + 2 * (t % 4) + i % 2) * kColumns + t / 4) = halves.at(i);
    if (!read_box(context, step, sums[t], warp[t], by, elements)) return false;
    te::load_lanes(DType::F32, halves.data(), elements.data(), 1, 4);
    for (std::size_t i = 0; i < 4; ++i) c.at(at_c(t, i)) = halves.at(i);
  }
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < kDepth; ++k) sum += a.at(row * kDepth + k) * b.at(k * kColumns + column);
      c.at(row * kColumns + column) += sum;
    }
  }
  te::settle_nans(DType::F32, c.data(), static_cast<int>(c.size()));
  for (std::size_t t = 0; t < kWarp; ++t) {
    std::array<float, 4> own{};
    for (std::size_t i = 0; i < own.size(); ++i) own.at(i) = c.at(at_c(t, i));
    elements.resize(sizeof own);
    te::store_lanes(DType::F32, elements.data(), 1, own.data(), 4);
    if (!write_box(context, step, sums[t], warp[t], toucher(lanes(context).thread[warp[t]]), elements))
      return false;
  }
  return true;
}

}  // namespace xyntra::kir::sim
