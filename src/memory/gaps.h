// Placing blocks one by one into the gaps that the blocks before them left: the moves of the search for an order.
#pragma once

#include "runtime/artifact/blocks.h"

namespace xyntra {

std::size_t count_conflicts(const ArenaBlocks& blocks);  // pairs of blocks that live together

// Which blocks live together: for each block the others, in one array.
class BlockConflicts {
 public:
  explicit BlockConflicts(const ArenaBlocks& blocks);  // takes room for all pairs

  std::span<const std::uint32_t> of_block(std::size_t block) const {
    return std::span(others_).subspan(begin_[block], begin_[block + 1] - begin_[block]);
  }
  std::size_t size() const { return others_.size(); }

 private:
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> others_;
};

enum class GapFit : std::uint8_t { First, Best };  // the lowest gap that is large enough, or the smallest

struct TakenBytes {
  std::int64_t begin = 0, end = 0;
  std::size_t last = 0;  // slot after which it is free again
};

// Blocks as they are born, the way an allocator would place them; of blocks born together the larger first. Looks
// at each pair of blocks that live together, and keeps none of them.
ArenaPlacement place_in_step_order(const ArenaBlocks& blocks, GapFit fit);

// Blocks in any order.
class GapFiller {
 public:
  GapFiller(const ArenaBlocks& blocks, const BlockConflicts& conflicts)
      : blocks_(blocks), conflicts_(conflicts) {}

  // Offsets by block; the peak is not rounded.
  const ArenaPlacement& place(std::span<const std::size_t> order, GapFit fit);

 private:
  const ArenaBlocks& blocks_;
  const BlockConflicts& conflicts_;
  std::vector<bool> placed_;
  std::vector<TakenBytes> taken_;
  ArenaPlacement result_;
};

}  // namespace xyntra
