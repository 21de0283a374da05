#include "memory/gaps.h"

#include <algorithm>
#include <numeric>

namespace xyntra {
namespace {

// `taken`: what is in the way, by beginning.
std::int64_t offset_for(const ArenaBlock& block, std::span<const TakenBytes> taken, GapFit fit) {
  std::int64_t best = -1, smallest = INT64_MAX, top = 0;
  for (const TakenBytes& extent : taken) {
    const std::int64_t offset = round_up(top, block.alignment);
    const std::int64_t gap = extent.begin - top;
    if (offset + block.size <= extent.begin && gap < smallest) {
      if (fit == GapFit::First) return offset;
      best = offset;
      smallest = gap;
    }
    top = std::max(top, extent.end);
  }
  return best >= 0 ? best : round_up(top, block.alignment);
}

std::vector<std::size_t> in_step_order(const ArenaBlocks& blocks) {
  const std::vector<ArenaBlock>& list = blocks.list;
  auto order =
      sorted_by(list.size(), [&list](std::size_t i) { return std::pair(list[i].first, -list[i].size); });
  std::erase_if(order, [&list](std::size_t i) { return list[i].size == 0; });
  return order;
}

}  // namespace

ArenaPlacement place_in_step_order(const ArenaBlocks& blocks, GapFit fit) {
  ArenaPlacement placement;
  placement.offsets.resize(blocks.list.size());
  std::vector<TakenBytes> live;  // by beginning
  for (std::size_t index : in_step_order(blocks)) {
    const ArenaBlock& block = blocks.list[index];
    std::erase_if(live, [&block](const TakenBytes& extent) { return extent.last < block.first; });
    const std::int64_t offset = offset_for(block, live, fit), end = offset + block.size;
    live.insert(std::ranges::upper_bound(live, offset, {}, &TakenBytes::begin), {offset, end, block.last});
    placement.offsets[index] = offset;
    placement.peak = std::max(placement.peak, end);
  }
  return placement;
}

std::size_t count_conflicts(const ArenaBlocks& blocks) {
  std::vector<std::size_t> born(blocks.slots), dead(blocks.slots);
  for (const ArenaBlock& block : blocks.list) {
    if (block.size == 0) continue;
    ++born[block.first];
    ++dead[block.last];
  }
  std::size_t live = 0, pairs = 0;
  for (std::size_t slot = 0; slot < blocks.slots; ++slot) {
    if (born[slot] > 0) pairs += born[slot] * live + born[slot] * (born[slot] - 1) / 2;
    live += born[slot];
    live -= dead[slot];
  }
  return pairs;
}

BlockConflicts::BlockConflicts(const ArenaBlocks& blocks) : begin_(blocks.list.size() + 1) {
  const std::vector<ArenaBlock>& list = blocks.list;
  struct Pair {
    std::uint32_t a, b;
  };
  std::vector<Pair> pairs;
  std::vector<std::size_t> live;
  for (std::size_t block : in_step_order(blocks)) {
    std::erase_if(live, [&](std::size_t other) { return list[other].last < list[block].first; });
    for (std::size_t other : live) {
      pairs.push_back({static_cast<std::uint32_t>(other), static_cast<std::uint32_t>(block)});
      ++begin_[other + 1];
      ++begin_[block + 1];
    }
    live.push_back(block);
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  others_.resize(2 * pairs.size());
  std::vector<std::size_t> next = begin_;
  for (const Pair& pair : pairs) {
    others_[next[pair.a]++] = pair.b;
    others_[next[pair.b]++] = pair.a;
  }
}

const ArenaPlacement& GapFiller::place(std::span<const std::size_t> order, GapFit fit) {
  placed_.assign(blocks_.list.size(), false);
  result_.offsets.assign(blocks_.list.size(), 0);
  result_.peak = 0;
  for (std::size_t index : order) {
    const ArenaBlock& block = blocks_.list[index];
    if (block.size == 0) continue;
    taken_.clear();
    for (std::uint32_t other : conflicts_.of_block(index)) {
      if (!placed_[other]) continue;
      const std::int64_t begin = result_.offsets[other];
      taken_.push_back({begin, begin + blocks_.list[other].size, 0});
    }
    std::ranges::sort(taken_, {}, &TakenBytes::begin);
    const std::int64_t offset = offset_for(block, taken_, fit);
    result_.offsets[index] = offset;
    result_.peak = std::max(result_.peak, offset + block.size);
    placed_[index] = true;
  }
  return result_;
}

}  // namespace xyntra
