// Warps: asynchronous copies of their threads, matrix fragments in their registers.
#include <algorithm>
#include <array>
#include <cstring>

#include "kir/intrinsics.h"
#include "kir/sim/sim_fragments.h"
#include "kir/sim/sim_runner.h"

namespace xyntra::kir::sim {
namespace {

constexpr std::size_t kWarp = static_cast<std::size_t>(kWarpThreads), kHalf = 2, kMatrices = 4,
                      kWordBytes = 4;

}  // namespace

std::uint32_t Runner::thread_copy_agent(std::uint32_t thread) const { return store_agent() + 1 + thread; }

bool Runner::is_aligned(const Box& box, std::uint32_t thread) const {
  const std::int64_t first = copy_of(box.buffer, thread) * program_.buffers[box.buffer.index].elements;
  return (place_in(box, 0, 0, thread) - first) % box.columns == 0;
}

// ---- asynchronous copies

bool Runner::async_copy(const Context& context, const Step& step, std::size_t lane) {
  const std::uint32_t thread = lanes(context).thread[lane];
  Box to, from;
  if (!find_box(context, step, 0, lane, to)) return false;
  Elements elements(static_cast<std::size_t>(kChunkBytes), std::byte{0});
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
  for (const auto& [warp, present] : warps) {
    if (present.size() != kWarp) {
      return fault(context, step, present.front(),
                   "only " + std::to_string(present.size()) + " of 32 threads of a warp reach this " +
                       spelling_of(step.node->intrinsic));
    }
    switch (step.node->intrinsic) {
      case Intrinsic::ShuffleIdx:
      case Intrinsic::ShuffleDown:
        if (!warp_shuffle(context, step, present)) return false;
        break;
      case Intrinsic::VoteAny:
      case Intrinsic::VoteAll:
      case Intrinsic::Ballot:
        if (!vote(context, step, present)) return false;
        break;
      case Intrinsic::LoadFragment:
      case Intrinsic::LoadFragmentTransposed:
        if (!load_fragment(context, step, present)) return false;
        break;
      default:
        if (!warp_multiply(context, step, present)) return false;
    }
  }
  return true;
}

// All read before one writes: they do so at once.
bool Runner::warp_shuffle(const Context& context, const Step& step, std::span<const std::size_t> warp) {
  const LaneSet& set = lanes(context);
  std::vector<Elements> given(kWarp);
  Box box;
  for (std::size_t t = 0; t < kWarp; ++t) {
    if (!find_box(context, step, 1, warp[t], box) ||
        !read_box(context, step, box, warp[t], toucher(set.thread[warp[t]]), given[t]))
      return false;
  }
  for (std::size_t t = 0; t < kWarp; ++t) {
    const auto told = static_cast<std::size_t>(number(step, 0, warp[t]));
    const std::size_t further = t + told < kWarp ? t + told : t;
    const std::size_t other = step.node->intrinsic == Intrinsic::ShuffleIdx ? told : further;
    if (other >= kWarp) return fault(context, step, warp[t], "a warp has no thread of that number");
    if (!find_box(context, step, 0, warp[t], box) ||
        !write_box(context, step, box, warp[t], toucher(set.thread[warp[t]]), given[other]))
      return false;
  }
  return true;
}

bool Runner::vote(const Context& context, const Step& step, std::span<const std::size_t> warp) {
  const LaneSet& set = lanes(context);
  std::uint32_t votes = 0;
  Elements elements;
  Box box;
  for (std::size_t t = 0; t < kWarp; ++t) {
    if (!find_box(context, step, 1, warp[t], box) ||
        !read_box(context, step, box, warp[t], toucher(set.thread[warp[t]]), elements))
      return false;
    if (elements[0] != std::byte{0}) votes |= std::uint32_t{1} << t;
  }
  const bool decided = step.node->intrinsic == Intrinsic::VoteAny ? votes != 0 : votes == UINT32_MAX;
  elements.assign(1, static_cast<std::byte>(decided));
  if (step.node->intrinsic == Intrinsic::Ballot) {
    elements.resize(sizeof votes);
    std::memcpy(elements.data(), &votes, sizeof votes);
  }
  for (std::size_t t = 0; t < kWarp; ++t) {
    if (!find_box(context, step, 0, warp[t], box) ||
        !write_box(context, step, box, warp[t], toucher(set.thread[warp[t]]), elements))
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
  const std::size_t bytes = storage.element_bytes(), in_word = kWordBytes / bytes;
  for (std::size_t t = 0; t < kWarp; ++t) {
    const std::uint32_t thread = set.thread[warp[t]];
    const Toucher by = toucher(thread);
    Elements words(kMatrices * kWordBytes);
    for (std::size_t at = 0; at < words.size() / bytes; ++at) {
      const std::size_t matrix = at / in_word, pair = t % 4 * in_word + at % in_word, line = t / 4;
      const Box& row = rows[matrix * 8 + (transposed ? pair : line)];
      const std::int64_t place =
          place_in(row, 0, static_cast<std::int64_t>(transposed ? line : pair), thread);
      if (storage.tracks_reads() && !touch_read(context, step, row.buffer, warp[t], place, by)) return false;
      std::memcpy(&words[at * bytes], storage.data() + place * static_cast<std::int64_t>(bytes), bytes);
    }
    Box registers;
    if (!find_box(context, step, 0, warp[t], registers)) return false;
    if (!write_box(context, step, registers, warp[t], by, words)) return false;
  }
  report_.loads += static_cast<std::int64_t>(kWarp * kMatrices * in_word);
  return true;
}

bool Runner::round_words(const Context& context, const Step& step, std::size_t lane) {
  constexpr int kElements = 8;
  const DType dtype = *element_of(step.node->intrinsic);
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

bool Runner::round_words_tf32(const Context& context, const Step& step, std::size_t lane) {
  constexpr std::uint32_t kDropped = 0x1fff, kHalfOfLast = 0x1000, kInfinity = 0x7f800000, kNan = 0x7fffffff;
  const Toucher by = toucher(lanes(context).thread[lane]);
  Box to, from;
  Elements elements;
  if (!find_box(context, step, 0, lane, to) || !find_box(context, step, 1, lane, from) ||
      !read_box(context, step, from, lane, by, elements))
    return false;
  for (std::size_t at = 0; at < elements.size(); at += kWordBytes) {
    std::uint32_t word = 0;
    std::memcpy(&word, &elements[at], sizeof word);
    word = (word & kNan) > kInfinity ? kNan : (word + kHalfOfLast) & ~kDropped;
    std::memcpy(&elements[at], &word, sizeof word);
  }
  return write_box(context, step, to, lane, by, elements);
}

bool Runner::warp_multiply(const Context& context, const Step& step, std::span<const std::size_t> warp) {
  constexpr std::size_t kRows = 16, kColumns = 8, kOwnSums = 4;
  const Fragment fragment(*element_of(step.node->intrinsic));
  const DType second = *second_element_of(step.node->intrinsic);
  const std::size_t depth = fragment.depth();
  std::vector<double> a(kRows * depth), b(depth * kColumns);
  Elements elements;
  for (std::size_t t = 0; t < kWarp; ++t) {
    const Toucher by = toucher(lanes(context).thread[warp[t]]);
    for (const std::size_t side : {1, 2}) {
      Box words;
      if (!find_box(context, step, side, warp[t], words) ||
          !read_box(context, step, words, warp[t], by, elements))
        return false;
      const std::vector<double> values = unit_values(side == 1 ? fragment.dtype : second, elements);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t word = i / fragment.in_word, e = i % fragment.in_word;
        if (side == 1) {
          a[(t / 4 + 8 * (word % 2)) * depth + fragment.at(t, word / 2 != 0, e)] = values[i];
        } else {
          b[fragment.at(t, word != 0, e) * kColumns + t / 4] = values[i];
        }
      }
    }
  }
  for (std::size_t t = 0; t < kWarp; ++t) {
    const Toucher by = toucher(lanes(context).thread[warp[t]]);
    Box own;
    if (!find_box(context, step, 0, warp[t], own) || !read_box(context, step, own, warp[t], by, elements))
      return false;
    const DType dtype = kernel_.buffer(own.buffer).dtype;
    for (std::size_t i = 0; i < kOwnSums; ++i) {
      const std::size_t row = t / 4 + 8 * (i / 2), column = 2 * (t % 4) + i % 2;
      UnitSum sum(dtype), whole(dtype, &elements[i * kWordBytes]);
      for (std::size_t k = 0; k < depth; ++k) sum.add(a[row * depth + k] * b[k * kColumns + column]);
      whole.add(sum);
      whole.put(&elements[i * kWordBytes]);
    }
    if (!write_box(context, step, own, warp[t], by, elements)) return false;
  }
  return true;
}

}  // namespace xyntra::kir::sim
