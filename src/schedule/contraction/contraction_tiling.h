// How a contraction is cut: register tiles of rows and columns, and passes over a long sum (lower/cpu/contraction/lower_contraction.h).
#pragma once

#include "plan/plan.h"
#include "schedule/contraction/contraction_roles.h"
#include "schedule/convolution/window_border.h"

namespace xyntra {

inline constexpr std::int64_t kTailRows = 4;
inline constexpr std::int64_t kFewestSums =
    8;  // registers that sums are under way in, below which each fma waits for one before
inline constexpr std::int64_t kLongestSum = 256;  // products; longer sums are added up from shorter ones

// A run of columns: `blocks` times `vectors` vectors of `width` lanes from `base` on.
struct ColumnRun {
  te::Expr base;
  Dim blocks;
  std::int64_t width = 1, vectors = 1;
  bool masked = false;  // lanes beyond the last column do nothing
  // Where the vectors of a tile are along a second axis: from where on, how many tiles, and the number of one of them.
  std::int64_t second_from = 0, second_tiles = 1;
  te::Expr second = te::Expr();
};

// How rows are cut into tiles: `full` ones, and what is left. Where the number of rows is known only when the program
// runs, a tile of two rows or more counts as full: rows beyond the last repeat it, and are not stored. Another pass over
// b costs more than they do. Only where there are no more than `kTailRows` in all they get a tile of that height; not along lines of a
// feature map, of which there are many.
struct RowCut {
  Dim turns, full, rest;
  bool clamped = false;
};

// How a long sum is cut.
struct SumCut {
  std::vector<te::VarId> outer, inner;  // axes
  te::VarId split;  // an axis of which each pass takes `factor` turns
  std::int64_t factor = 1;
  std::int64_t turns = 1;  // of the whole sum
};

class ContractionTiling {
 public:
  // `fused`: sums may be added up in another order.
  ContractionTiling(const AccessAnalysis& analysis, const te::Stage& stage, const ContractionRoles& roles,
                    const Schedule& schedule, bool fused);

  bool has_lines() const;  // whether there are several rows of tiles

  te::VarId tile;  // the axis that the rows of a tile are along; invalid where there is none
  te::VarId second;  // the axis that its vectors are along, where that is not the lane's
  std::int64_t rows = 1, vectors = 1, width = 1;  // of a tile; lanes of a vector

  // The lanes that a tile of a run has, and where its vectors begin along the second axis.
  std::int64_t lanes_of(const ColumnRun& across) const {
    return across.width * (second.valid() ? 1 : across.vectors);
  }
  static te::Expr first_of_second(const ColumnRun& across) {
    return across.second * te::Expr::index(across.vectors) + te::Expr::index(across.second_from);
  }
  te::Substitution at_column(const ColumnRun& across, te::Substitution variables, const te::Expr& vector,
                             const te::Expr& lane) const;

  // All columns: tiles of several vectors, of one, and what is left one by one.
  std::vector<ColumnRun> runs_of_columns() const;
  RowCut cut_rows() const;
  te::Expr is_full(const RowCut& cut, const te::Expr& number) const;
  // One tile has all rows, so nobody reads a line of b again.
  bool reads_once() const;

  // The axes of the sum. The one that the row operand is contiguous along goes inside.
  std::vector<te::VarId> reduction_order() const;
  // The lines of b that one pass reads stay in the L1 cache while all tiles of a work item use them.
  std::optional<SumCut> cut_for_cache(const ColumnRun& across) const;
  // The same for lines that are made in panels, which short sums have, too: in one pass, if need be.
  std::optional<SumCut> cut_for_panels(const ColumnRun& across) const;
  // Whether lines of b are laid in panels before tiles read them: where they take arithmetic, or lie so far apart in memory that few of
  // them stay in the L1 cache from one tile to the next.
  bool packs_lines(const Schedule& schedule) const;
  bool may_pack_lines(const Schedule& schedule) const;
  // Passes of at most so many products; none where the sum has no more.
  std::optional<SumCut> cut_sum(std::int64_t most) const;
  std::int64_t cache_bytes() const {
    return analysis_.target().l2_bytes / 4 * 3;
  }  // of a core, for one operand

  // Whether loops over rows of tiles go around those over columns, of so many turns each. For every turn of the outer ones the inner
  // ones go through their operand once more: that comes from memory each time where it does not stay in the cache.
  bool rows_go_outside(std::int64_t columns, std::int64_t rows_of_tiles) const;

  // The border of windows that reach beyond their picture, where the schedule allows it to be left out and tiles can do so.
  std::optional<WindowBorder> skipped_border(const Schedule& schedule) const;

 private:
  const Dim& extent(te::VarId axis) const { return analysis_.formula().variable(axis).extent; }
  bool can_skip(const WindowBorder& border) const;
  bool streams_results() const;
  std::int64_t elements_read(const te::ExprNode& load) const;
  std::int64_t lines_in_cache(const ColumnRun& across, std::int64_t bytes) const;
  bool lines_lie_apart() const;
  bool rows_lie_side_by_side() const;
  std::vector<ColumnRun> runs_along_lanes() const;
  void choose_tile(const Schedule& schedule);
  void choose_inside(const Schedule& schedule);

  const AccessAnalysis& analysis_;
  const te::Stage& stage_;
  const ContractionRoles& roles_;
  bool fused_;
  te::VarId inside_;  // the axis of a sum that goes inside where no operand is contiguous along one
};

// Products are added without being rounded, and in another order where that is better.
bool adds_fused(const te::Stage& stage, const Schedule& schedule);

// Whether tiles leave out what a stage's windows have beyond their picture (window_border.h), as its schedule allows.
bool skips_border(const te::Formula& formula, std::size_t stage, const Schedule& schedule,
                  const Target& target, const SymbolBindings& nominal);

}  // namespace xyntra
