// Requests with their sizes bound: what the search for an order and the pass at bind time both work on.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/offsets.h"

namespace xyntra {

struct ArenaBlock {
  std::int64_t size = 0;
  std::int64_t alignment = 1;
  std::size_t first = 0,
              last = 0;  // slots: steps at which a block of some size begins, renumbered without gaps
};

struct ArenaBlocks {
  std::vector<ArenaBlock> list;     // by request
  std::size_t slots = 0;       // at most as many as blocks
  std::int64_t granule = 1;    // the smallest alignment
};

inline std::int64_t round_up(std::int64_t value, std::int64_t power_of_two) {
  return (value + power_of_two - 1) & -power_of_two;
}

// The numbers below `count` by rising key, ties by number.
template <class Key>
std::vector<std::size_t> sorted_by(std::size_t count, Key key) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&key](std::size_t i) { return std::pair(key(i), i); });
  return order;
}

// Checks the requests and that no sum of their sizes, alignment included, can overflow.
Result<ArenaBlocks> bind_requests(std::span<const ArenaRequest> requests, const SymbolBindings& bindings);
ArenaPlacement stack_blocks(const ArenaBlocks& blocks,
                            std::span<const std::size_t> order);  // order: a permutation
std::int64_t largest_live_set(const ArenaBlocks& blocks);

}  // namespace xyntra
