#include "runtime/offsets.h"

#include <algorithm>
#include <bit>

#include "runtime/artifact/blocks.h"

namespace xyntra {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 56;
constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;

// The height of the stack at every slot: a segment tree of maxima. A range is only ever raised to a height above all
// it holds, so a mark on an inner node stands for its whole range and is never pushed down.
class Skyline {
 public:
  explicit Skyline(std::size_t slots)
      : leaves_(std::bit_ceil(std::max<std::size_t>(slots, 1))),
        highest_(2 * leaves_),
        raised_(2 * leaves_) {}

  std::int64_t highest(std::size_t first, std::size_t last) const {
    std::int64_t found = 0;
    for (std::size_t node : {first + leaves_, last + leaves_}) {
      for (node /= 2; node > 0; node /= 2) found = std::max(found, raised_[node]);
    }
    cover(first, last, [&](std::size_t node) { found = std::max(found, highest_[node]); });
    return found;
  }

  void raise(std::size_t first, std::size_t last, std::int64_t height) {
    cover(first, last, [&](std::size_t node) { highest_[node] = raised_[node] = height; });
    for (std::size_t node : {first + leaves_, last + leaves_}) {
      for (node /= 2; node > 0; node /= 2) highest_[node] = std::max(highest_[node], height);
    }
  }

 private:
  // The few nodes whose ranges together are [first, last].
  template <class Visit>
  void cover(std::size_t first, std::size_t last, Visit visit) const {
    std::size_t left = first + leaves_, right = last + leaves_ + 1;
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) visit(left++);
      if (right % 2 == 1) visit(--right);
    }
  }

  std::size_t leaves_;
  std::vector<std::int64_t> highest_, raised_;
};

std::string request_name(std::size_t request) { return "arena request " + std::to_string(request); }

Status check_order(std::span<const std::size_t> order, std::size_t count) {
  if (order.size() != count) return bad_model("the arena's order does not name every request once");
  std::vector<bool> seen(count);
  for (std::size_t request : order) {
    if (request >= count || seen[request])
      return bad_model("the arena's order does not name every request once");
    seen[request] = true;
  }
  return {};
}

// Two requests live together when the later one begins before the earlier one ends, so only beginnings matter; and of
// those only where something begins that takes room.
void renumber_steps(std::span<const ArenaRequest> requests, ArenaBlocks& blocks) {
  std::vector<std::size_t> beginnings;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (blocks.list[i].size > 0) beginnings.push_back(requests[i].first);
  }
  std::ranges::sort(beginnings);
  const auto repeated = std::ranges::unique(beginnings);
  beginnings.erase(repeated.begin(), repeated.end());
  const auto slot = [&beginnings](std::size_t step) {  // the last beginning that is not after the step
    return static_cast<std::size_t>(std::ranges::upper_bound(beginnings, step) - beginnings.begin()) - 1;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (blocks.list[i].size == 0) continue;
    blocks.list[i].first = slot(requests[i].first);
    blocks.list[i].last = slot(requests[i].last);
  }
  blocks.slots = beginnings.size();
}

}  // namespace

Result<ArenaBlocks> bind_requests(std::span<const ArenaRequest> requests, const SymbolBindings& bindings) {
  ArenaBlocks blocks;
  blocks.list.resize(requests.size());
  blocks.granule = kLargestAlignment;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const ArenaRequest& request = requests[i];
    if (request.first > request.last) return bad_model(request_name(i) + " ends before it begins");
    const std::int64_t alignment = request.alignment;
    if (alignment <= 0 || alignment > kLargestAlignment ||
        !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
      return bad_model(request_name(i) + " has an alignment that is not a power of two up to 2^30");
    XYNTRA_TRY(const std::int64_t size, request.size.evaluate(bindings));
    if (size < 0) return bad_model(request_name(i) + " has the size " + std::to_string(size));
    total += std::min(size, kMostBytes) + alignment;
    if (total > kMostBytes) return limit_error("the buffers of one run add up to more than 2^56 bytes");
    blocks.list[i].size = size;
    blocks.list[i].alignment = alignment;
    blocks.granule = std::min(blocks.granule, alignment);
  }
  renumber_steps(requests, blocks);
  return blocks;
}

ArenaPlacement stack_blocks(const ArenaBlocks& blocks, std::span<const std::size_t> order) {
  ArenaPlacement placement;
  placement.offsets.resize(blocks.list.size());
  Skyline skyline(blocks.slots);
  for (std::size_t index : order) {
    const ArenaBlock& block = blocks.list[index];
    if (block.size == 0) continue;
    const std::int64_t offset = round_up(skyline.highest(block.first, block.last), block.alignment);
    placement.offsets[index] = offset;
    skyline.raise(block.first, block.last, offset + block.size);
    placement.peak = std::max(placement.peak, offset + block.size);
  }
  placement.peak = round_up(placement.peak, blocks.granule);
  return placement;
}

std::int64_t largest_live_set(const ArenaBlocks& blocks) {
  std::vector<std::int64_t> change(blocks.slots + 1);
  for (const ArenaBlock& block : blocks.list) {
    if (block.size == 0) continue;
    const std::int64_t size = round_up(block.size, blocks.granule);
    change[block.first] += size;
    change[block.last + 1] -= size;
  }
  std::int64_t live = 0, most = 0;
  for (std::int64_t step : change) most = std::max(most, live += step);
  return most;
}

Result<ArenaPlacement> assign_offsets(std::span<const ArenaRequest> requests,
                                      std::span<const std::size_t> order, const SymbolBindings& bindings) {
  XYNTRA_CHECK_OK(check_order(order, requests.size()));
  XYNTRA_TRY(const ArenaBlocks blocks, bind_requests(requests, bindings));
  return stack_blocks(blocks, order);
}

Result<std::int64_t> largest_live_set(std::span<const ArenaRequest> requests,
                                      const SymbolBindings& bindings) {
  XYNTRA_TRY(const ArenaBlocks blocks, bind_requests(requests, bindings));
  return largest_live_set(blocks);
}

}  // namespace xyntra
