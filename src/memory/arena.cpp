#include "memory/arena.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "memory/gaps.h"

namespace xyntra {
namespace {

__extension__ typedef unsigned __int128 Wide;

// What the search may cost, in units of one block or one pair of blocks looked at: a few tenths of a second.
constexpr std::size_t kMostPairsInPassing = std::size_t{1} << 27;
constexpr std::size_t kMostPairs = std::size_t{1} << 21;
constexpr std::size_t kMostWork = std::size_t{1} << 23;
constexpr std::size_t kMostTrials = 1000;
constexpr std::uint64_t kGoodEnough = 1000;  // millionths above the lower bound at which it stops

using Order = std::vector<std::size_t>;

// Blocks by falling key, ties by number.
struct Ranking {
  std::string_view name;
  Wide (*key)(const ArenaBlock& block);
};
constexpr Wide lifetime(const ArenaBlock& block) { return block.last - block.first + 1; }
constexpr Ranking kRankings[] = {
    {"size", [](const ArenaBlock& b) { return Wide(b.size); }},
    {"area", [](const ArenaBlock& b) { return Wide(b.size) * lifetime(b); }},
    {"lifetime", [](const ArenaBlock& b) { return lifetime(b) << 64 | Wide(b.size); }},
};

Order ranked(const ArenaBlocks& blocks, const Ranking& ranking) {
  return sorted_by(blocks.list.size(), [&](std::size_t i) { return ~ranking.key(blocks.list[i]); });
}

// Blocks of the fullest slot first, then those of the next fullest, and so on; within a slot the larger first.
Order by_pressure(const ArenaBlocks& blocks) {
  std::vector<std::int64_t> live(blocks.slots + 1);
  for (const ArenaBlock& block : blocks.list) {
    if (block.size == 0) continue;
    live[block.first] += block.size;
    live[block.last + 1] -= block.size;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  std::vector<std::int64_t> pressure(blocks.list.size());
  for (std::size_t i = 0; i < pressure.size(); ++i) {
    const ArenaBlock& block = blocks.list[i];
    if (block.size == 0) continue;
    const auto begin = live.begin() + static_cast<std::ptrdiff_t>(block.first);
    pressure[i] = *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(lifetime(block)));
  }
  return sorted_by(pressure.size(),
                   [&](std::size_t i) { return std::pair(-pressure[i], -blocks.list[i].size); });
}

Order by_offset(const ArenaPlacement& placement) {
  return sorted_by(placement.offsets.size(), [&](std::size_t i) { return placement.offsets[i]; });
}

class Search {
 public:
  explicit Search(std::vector<ArenaBlocks> samples) : samples_(std::move(samples)), starts_(samples_.size()) {
    for (const ArenaBlocks& blocks : samples_) bounds_.push_back(largest_live_set(blocks));
  }

  ArenaPlan run() {
    for (std::size_t sample = 0; sample < samples_.size() && !good_enough(); ++sample) try_heuristics(sample);
    if (!good_enough()) improve();
    return std::move(best_);
  }

 private:
  // How far the peaks are above the bounds, in millionths: the worst sample, then all together.
  struct Excess {
    std::uint64_t worst = 0, total = 0;
    auto operator<=>(const Excess&) const = default;
  };

  bool good_enough() const { return tried_ && excess_.worst <= kGoodEnough; }

  // Judges an order on every sample; true when it is the best so far.
  bool consider(Order order, std::string_view heuristic) {
    Excess excess;
    std::vector<ArenaPlan::Bound> peaks;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const std::int64_t peak = stack_blocks(samples_[i], order).peak;
      peaks.push_back({peak, bounds_[i]});
      if (bounds_[i] == 0) continue;
      const Wide above = Wide(peak - bounds_[i]) * 1'000'000;
      const auto millionths = static_cast<std::uint64_t>((above + Wide(bounds_[i]) - 1) / Wide(bounds_[i]));
      excess.worst = std::max(excess.worst, millionths);
      excess.total += millionths;
    }
    if (tried_ && excess >= excess_) return false;
    tried_ = true;
    excess_ = excess;
    best_ = {std::move(order), heuristic, std::move(peaks)};
    return true;
  }

  void try_heuristics(std::size_t sample) {
    const ArenaBlocks& blocks = samples_[sample];
    std::vector<std::pair<std::string_view, Order>> orders;
    for (const Ranking& ranking : kRankings) orders.emplace_back(ranking.name, ranked(blocks, ranking));
    for (const auto& [name, order] : orders) consider(order, name);
    const std::size_t pairs = count_conflicts(blocks);
    if (good_enough() || pairs > kMostPairsInPassing) return;
    orders.emplace_back("pressure", by_pressure(blocks));
    consider(orders.back().second, "pressure");
    for (GapFit fit : {GapFit::First, GapFit::Best})
      consider(by_offset(place_in_step_order(blocks, fit)), "steps");
    if (good_enough() || pairs > kMostPairs) return;
    const BlockConflicts conflicts(blocks);
    GapFiller filler(blocks, conflicts);
    for (const auto& [name, order] : orders) {
      for (GapFit fit : {GapFit::First, GapFit::Best}) {
        if (good_enough() || !spend(conflicts.size() + blocks.list.size())) return;
        const ArenaPlacement& placed = filler.place(order, fit);
        consider(by_offset(placed), name);
        Start& start = starts_[sample];
        if (start.order.empty() || placed.peak < start.peak) start = {order, fit, placed.peak};
      }
    }
  }

  std::size_t worst_sample() const {
    const auto excess = [this](std::size_t i) {
      const ArenaPlan::Bound& bound = best_.samples[i];
      return bound.lower_bound == 0 ? 0 : (Wide(bound.peak) << 20) / Wide(bound.lower_bound);
    };
    std::size_t worst = 0;
    for (std::size_t i = 1; i < samples_.size(); ++i) worst = excess(i) > excess(worst) ? i : worst;
    return worst;
  }

  // From the insertion order that gave the best packing so far: blocks that reach the top are inserted earlier, where a
  // fixed sequence of numbers says; a change that does not raise the peak stays.
  void improve() {
    const std::size_t sample = worst_sample();
    const ArenaBlocks& blocks = samples_[sample];
    if (starts_[sample].order.empty()) return;  // there were too many pairs
    const GapFit fit = starts_[sample].fit;
    const BlockConflicts conflicts(blocks);
    GapFiller filler(blocks, conflicts);
    Order current = starts_[sample].order;
    ArenaPlacement placed = filler.place(current, fit);
    std::uint64_t state = 0x9e3779b97f4a7c15;
    for (std::size_t trial = 0; trial < kMostTrials && !good_enough(); ++trial) {
      if (!spend(conflicts.size() + blocks.list.size())) return;
      Order moved = current;
      for (std::size_t position = 0; position < moved.size(); ++position) {
        const std::size_t block = moved[position];
        if (placed.offsets[block] + blocks.list[block].size != placed.peak) continue;
        state = state * 6364136223846793005u + 1442695040888963407u;
        move_forward(moved, position, static_cast<std::size_t>((Wide(state) * (position + 1)) >> 64));
      }
      const ArenaPlacement& attempt = filler.place(moved, fit);
      if (attempt.peak > placed.peak) continue;
      consider(by_offset(attempt), "improved");
      placed = attempt;
      current = std::move(moved);
    }
  }

  static void move_forward(Order& order, std::size_t from, std::size_t to) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(to);
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(from) + 1;
    std::rotate(begin, end - 1, end);
  }

  bool spend(std::size_t work) {
    if (work > kMostWork - spent_) return false;
    spent_ += work;
    return true;
  }

  struct Start {
    Order order;
    GapFit fit = GapFit::First;
    std::int64_t peak = 0;
  };
  std::vector<ArenaBlocks> samples_;
  std::vector<std::int64_t> bounds_;
  ArenaPlan best_;
  Excess excess_;
  bool tried_ = false;
  std::vector<Start> starts_;  // by sample
  std::size_t spent_ = 0;
};

}  // namespace

Result<ArenaPlan> plan_arena(std::span<const ArenaRequest> requests,
                             std::span<const SymbolBindings> samples) {
  require(!samples.empty(), "plan_arena: no sample bindings");
  std::vector<ArenaBlocks> bound;
  for (const SymbolBindings& bindings : samples) {
    XYNTRA_TRY(ArenaBlocks blocks, bind_requests(requests, bindings));
    bound.push_back(std::move(blocks));
  }
  return Search(std::move(bound)).run();
}

Result<ArenaPlan> plan_arena(std::span<const ArenaRequest> requests, const SymbolBindings& bindings) {
  return plan_arena(requests, std::array{bindings});
}

}  // namespace xyntra
