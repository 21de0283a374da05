// Placing blocks one by one into the gaps that the blocks before them left: the moves of the search for an order.
#pragma once

#include "memory/blocks.h"

namespace xyntra {

std::size_t count_conflicts(const Blocks& blocks);  // pairs of blocks that live together

// Which blocks live together: for each block the others, in one array.
class Conflicts {
 public:
  explicit Conflicts(const Blocks& blocks);  // takes room for all pairs

  std::span<const std::uint32_t> of_block(std::size_t block) const {
    return std::span(others_).subspan(begin_[block], begin_[block + 1] - begin_[block]);
  }
  std::size_t size() const { return others_.size(); }

 private:
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> others_;
};

enum class Fit : std::uint8_t { First, Best };  // the lowest gap that is large enough, or the smallest

struct TakenExtent {
  std::int64_t begin = 0, end = 0;
  std::size_t last = 0;  // slot after which it is free again
};

// Blocks as they are born, the way an allocator would place them; of blocks born together the larger first. Looks
// at each pair of blocks that live together, and keeps none of them.
Placement place_in_step_order(const Blocks& blocks, Fit fit);

// Blocks in any order.
class GapFiller {
 public:
  GapFiller(const Blocks& blocks, const Conflicts& conflicts) : blocks_(blocks), conflicts_(conflicts) {}

  // Offsets by block; the peak is not rounded.
  const Placement& place(std::span<const std::size_t> order, Fit fit);

 private:
  const Blocks& blocks_;
  const Conflicts& conflicts_;
  std::vector<bool> placed_;
  std::vector<TakenExtent> taken_;
  Placement result_;
};

}  // namespace xyntra
