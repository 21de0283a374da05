// Offsets of buffers inside one arena, from their sizes, their lifetimes and an order.
//
// The order is the decision, made at compile time by memory/arena.h; the offsets follow from it by stacking. Each
// request in turn is set on top of the requests before it that live at the same time:
//
//   a: 4 bytes, steps 0-1     order a b c: a at 0, b at 4, c at 6, peak 9
//   b: 2 bytes, steps 1-2     order a c b: a at 0, c at 0, b at 4, peak 6
//   c: 3 bytes, steps 2-3
//
// Stacking gives up nothing: take the offsets of any packing whatever, sort the requests by them, and stacking in that
// order puts no request higher than it was. And it needs no search, so sizes may be expressions: when they are bound,
// one pass of n log n gives the offsets, right for any sizes, tight for those the order was chosen for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/result.h"
#include "types/dim.h"

namespace xyntra {

struct ArenaRequest {
  Dim size;  // bytes
  std::size_t first = 0, last = 0;  // the steps during which it lives, both included
  std::int64_t alignment = 64;  // of its offset: a power of two
};

struct ArenaPlacement {
  std::vector<std::int64_t> offsets;  // by request
  std::int64_t peak = 0;  // bytes of the arena, a multiple of the smallest alignment
};

// Limit error when sizes add up to more than 2^56 bytes; Usage error for a size without a value; BadModel error when
// the requests (a negative size, a lifetime that ends before it begins) or the order (not a permutation) make no sense.
Result<ArenaPlacement> assign_offsets(std::span<const ArenaRequest> requests,
                                      std::span<const std::size_t> order, const SymbolBindings& bindings);

// The lower bound of every peak: the most bytes that live at one step, each size rounded up to the smallest alignment.
Result<std::int64_t> largest_live_set(std::span<const ArenaRequest> requests, const SymbolBindings& bindings);

}  // namespace xyntra
