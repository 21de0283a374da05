#include "schedule/contraction/contraction_tiling.h"

#include <algorithm>

#include "te/compose/compose.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::VarId;

namespace {

constexpr std::size_t kMostRuns = 3;  // of tiles that lie beyond a picture in other ways: the kernel has each
constexpr std::int64_t kApart = 1024;  // bytes from one line of b to the next
constexpr std::int64_t kFewestFreeRows = 6;  // of a tile along an axis whose size is not known
constexpr std::int64_t kLineBytes = 36 << 10;  // of b in one pass of a sum: they stay in the L1 cache

std::int64_t value_of(const Schedule& schedule, std::string_view name, std::int64_t otherwise) {
  for (const Knob& one : schedule.knobs) {
    if (one.name == name) return one.value;
  }
  return otherwise;
}

bool has_knob(const Schedule& schedule, std::string_view name) {
  return std::ranges::find(schedule.knobs, name, &Knob::name) != schedule.knobs.end();
}

}  // namespace

ContractionTiling::ContractionTiling(const AccessAnalysis& analysis, const te::Stage& stage,
                                     const ContractionRoles& roles, const Schedule& schedule, bool fused)
    : analysis_(analysis), stage_(stage), roles_(roles), fused_(fused) {
  choose_tile(schedule);
  choose_inside(schedule);
}

// Rows inside the feature map are known for each offset of the window where a loop goes on inside it (can_skip): of the channels, where
// tiles would multiply much padding otherwise.
void ContractionTiling::choose_inside(const Schedule& schedule) {
  constexpr std::int64_t kFewestChannels = 4, kMuch = 8;  // one product in so many
  if (!fused_ || !has_knob(schedule, kSkipPadding) || !tile.valid()) return;
  const auto border = window_border(analysis_, stage_, roles_.row_factor);
  const WindowBorder::Side* side = border ? border->along(tile) : nullptr;
  if (side == nullptr || reduction_order().back() != side->offset) return;
  std::int64_t inside = 0;
  for (const RowsInside& rows_of_offset : rows_inside(*side, 0, side->turns))
    inside += rows_of_offset.to - rows_of_offset.from;
  const std::int64_t all = side->turns * side->offsets;
  if ((all - inside) * kMuch < all) return;
  for (VarId axis : stage_.reduction) {
    const Dim& channels = extent(axis);
    if (border->across(axis) == nullptr && channels.is_constant() && channels.constant() >= kFewestChannels)
      inside_ = axis;
  }
}

bool ContractionTiling::rows_go_outside(std::int64_t columns, std::int64_t rows_of_tiles) const {
  auto traffic = [&](const Expr& factor, std::int64_t times) {
    std::int64_t bytes = 0;
    te::for_each_node(factor, [&](const ExprNode& node) {
      if (!te::is_load(node)) return;
      bytes += elements_read(node) * std::max(bits_of(analysis_.formula().buffer(node.buffer).dtype) / 8, 1);
    });
    return bytes > cache_bytes() ? bytes * times : bytes;
  };
  const std::int64_t columns_outside = traffic(roles_.row_factor, columns) + traffic(roles_.lane_factor, 1),
                     rows_outside =
                         traffic(roles_.lane_factor, rows_of_tiles) + traffic(roles_.row_factor, 1);
  return rows_outside < columns_outside || (rows_outside == columns_outside && streams_results());
}

// Whether short sums of a second factor that stays in the cache make results that do not: then these, and what else is read for
// them, come and go row by row, as memory likes it, and not in pieces as wide as a tile. Blocked channels lie in such pieces.
// Channels a feature map apart are rather finished map by map.
bool ContractionTiling::streams_results() const {
  if (analysis_.size(extent(roles_.lane)) <= analysis_.lanes()) return false;
  if (!analysis_.contiguous_in_blocks(stage_.target, stage_.store, roles_.lane, analysis_.lanes()))
    return false;
  std::int64_t sums = 1, results = 1, bytes = std::max(bits_of(stage_.body.dtype()) / 8, 1);
  for (VarId axis : stage_.reduction) sums *= analysis_.size(extent(axis));
  for (VarId axis : stage_.axes) results *= analysis_.size(extent(axis));
  std::int64_t moved = 1;
  if (stage_.finish.defined()) {
    te::for_each_node(stage_.finish, [&](const ExprNode& node) {
      if (te::is_load(node) && elements_read(node) == results) ++moved;
    });
  }
  return sums <= kLongestSum && results * moved * bytes > cache_bytes();
}

// Of the buffer of a load: windows that overlap read an element often, steps leave some out. Lines of the cache are
// brought as a whole, so the last dimension counts in full.
std::int64_t ContractionTiling::elements_read(const ExprNode& load) const {
  const Shape& shape = analysis_.formula().buffer(load.buffer).shape;
  const std::vector<Expr> index = te::index_of(load);
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t all = analysis_.size(shape[d]);
    std::int64_t places = 1;
    for (VarId axis : te::variables_of(index[d])) places *= analysis_.size(extent(axis));
    elements *= d + 1 < shape.size() ? std::min(places, all) : all;
  }
  return elements;
}

te::Substitution ContractionTiling::at_column(const ColumnRun& across, te::Substitution variables,
                                              const Expr& vector, const Expr& lane) const {
  if (second.valid()) {
    variables[second.index] = first_of_second(across) + vector;
    variables[roles_.lane.index] = across.base + lane;
  } else {
    variables[roles_.lane.index] = across.base + vector * Expr::index(across.width) + lane;
  }
  return variables;
}

// Where vectors are along a second axis, those that fill no tile are a lower one.
std::vector<ColumnRun> ContractionTiling::runs_of_columns() const {
  std::vector<ColumnRun> runs = runs_along_lanes();
  if (!second.valid()) return runs;
  const std::int64_t all = extent(second).constant(), left = all % vectors;
  for (ColumnRun& run : runs) {
    run.vectors = vectors;
    run.second_tiles = all / vectors;
  }
  if (left == 0) return runs;
  const std::size_t whole = runs.size();
  for (std::size_t r = 0; r < whole; ++r) {
    ColumnRun last = runs[r];
    last.vectors = left;
    last.second_from = all - left;
    last.second_tiles = 1;
    runs.push_back(std::move(last));
  }
  return runs;
}

std::vector<ColumnRun> ContractionTiling::runs_along_lanes() const {
  std::int64_t in_lane = second.valid() ? 1 : vectors;
  const Dim& columns = extent(roles_.lane);
  Dim blocks = floor_div(columns, width * in_lane), done = blocks * (width * in_lane);
  std::vector<ColumnRun> runs;
  if (!blocks.is(0)) runs.push_back({Expr::index(0), blocks, width, in_lane});
  Dim whole = in_lane > 1 ? floor_div(columns, width) - blocks * in_lane : Dim(0);
  const bool masks = analysis_.has_masks() && width > 1;
  if (masks && columns.is_constant() && columns.constant() % width > 1) {
    // What is left is one tile, with some lanes of its last vector idle.
    std::int64_t left = columns.constant() - done.constant();
    runs.push_back({Expr::size(done), 1, width, (left + width - 1) / width, true});
    return runs;
  }
  if (!whole.is(0)) runs.push_back({Expr::size(done), whole, width, 1});
  done = done + whole * width;
  if (done == columns) return runs;
  if (masks && !(columns - done).is(1)) {
    runs.push_back({Expr::size(done), 1, width, 1, true});
  } else {
    runs.push_back({Expr::size(done), columns - done, 1, 1});
  }
  return runs;
}

void ContractionTiling::choose_tile(const Schedule& schedule) {
  std::int64_t lanes = analysis_.size(extent(roles_.lane));
  width = analysis_.vector_width(extent(roles_.lane));
  vectors = std::max<std::int64_t>(1, value_of(schedule, "tile_columns", 2 * width) / width);
  if (lanes < width * vectors || (extent(roles_.lane).is_constant() && lanes % (width * vectors) != 0)) {
    // One vector along the lanes; more of them along another axis that tiles the columns, best one that comes out even.
    bool is_even = false;
    for (VarId axis : roles_.columns) {
      if (vectors == 1 || lanes % width != 0 || !extent(axis).is_constant()) continue;
      const std::int64_t all = extent(axis).constant();
      if (all < vectors || (is_even && all % vectors != 0)) continue;
      is_even = all % vectors == 0;
      second = axis;
    }
    bool masks = analysis_.has_masks() && extent(roles_.lane).is_constant();
    std::int64_t fill = (lanes + (masks ? width - 1 : 0)) / width;
    if (!second.valid() && lanes < width * vectors) vectors = std::max<std::int64_t>(1, fill);
  }
  rows = value_of(schedule, "tile_rows", 4);
  if (roles_.rows.empty()) {
    rows = 1;
    return;
  }
  // The longest, of those that fill a tile the innermost.
  tile = *std::max_element(roles_.rows.begin(), roles_.rows.end(), [this](VarId a, VarId b) {
    auto filled = [this](VarId axis) { return std::min(analysis_.size(extent(axis)), rows); };
    return filled(a) <= filled(b);
  });
  if (!extent(tile).is_constant() && !has_lines()) {
    if (rows > kTailRows) rows -= rows % kTailRows;  // so that what is left comes in fours
    return;
  }
  const std::int64_t turns = analysis_.size(extent(tile));
  if (turns == 0) return;
  const std::int64_t tiles = (turns + rows - 1) / rows, even = (turns + tiles - 1) / tiles;
  // Tiles of nearly one size; where that is only expected, not so low that other sizes take many of them.
  rows = std::min(rows, extent(tile).is_constant() ? even : std::max(even, kFewestFreeRows));
}

bool ContractionTiling::has_lines() const {
  return std::ranges::any_of(roles_.rows,
                             [this](VarId axis) { return axis != tile && analysis_.size(extent(axis)) > 1; });
}

RowCut ContractionTiling::cut_rows() const {
  RowCut cut{extent(tile), floor_div(extent(tile), rows), {}, false};
  cut.rest = cut.turns - cut.full * rows;
  cut.clamped = !cut.rest.is_constant() && rows > kTailRows;
  if (!cut.clamped) return cut;
  if (has_lines()) {
    cut.full = ceil_div(cut.turns, rows);
    cut.rest = 0;
    return cut;
  }
  cut.full = floor_div(cut.turns + (rows - 2), rows);
  cut.rest = cut.turns - cut.full * rows;  // negative where the last tile is not full
  return cut;
}

Expr ContractionTiling::is_full(const RowCut& cut, const Expr& number) const {
  if (!cut.clamped) return number < Expr::size(cut.full);
  if (cut.rest.is(
          0)) {  // that there are rows is said by itself: bounds of what lies apart in memory follow from it
    return (Expr::index(0) < Expr::size(cut.turns)) & (number * Expr::index(rows) < Expr::size(cut.turns));
  }
  // The same said without a division: bounds follow from it.
  return (Expr::index(kTailRows) < Expr::size(cut.turns)) &
         (number * Expr::index(rows) + Expr::index(1) < Expr::size(cut.turns));
}

std::int64_t ContractionTiling::lines_in_cache(const ColumnRun& across, std::int64_t bytes) const {
  const std::int64_t line = across.width * across.vectors * std::max(bits_of(stage_.body.dtype()) / 8, 1);
  return std::min(bytes / line, kLongestSum);
}

bool ContractionTiling::lines_lie_apart() const {
  const Expr& lines = roles_.lane_factor;
  const std::vector<VarId> order = reduction_order();
  const auto next =
      std::find_if(order.rbegin(), order.rend(), [this](VarId axis) { return !extent(axis).is(1); });
  if (lines->op != te::ExprOp::Load || next == order.rend()) return false;
  const auto stride = analysis_.stride(lines->buffer, te::index_of(*lines), *next);
  return stride && analysis_.size(*stride) * bits_of(lines.dtype()) / 8 >= kApart;
}

// Pixels of a row, say: then turns of the sum lie a feature map apart, and take as much of the cache as lines of b do.
bool ContractionTiling::rows_lie_side_by_side() const {
  bool found = false;
  te::for_each_node(roles_.row_factor, [&](const ExprNode& node) {
    if (!te::is_load(node) || !tile.valid()) return;
    const auto stride = analysis_.stride(node.buffer, te::index_of(node), tile);
    found = found || (stride && stride->is(1));
  });
  return found;
}

bool ContractionTiling::may_pack_lines(const Schedule& schedule) const {
  std::int64_t all = 1;
  for (VarId axis : roles_.rows) all *= analysis_.size(extent(axis));
  if (!tile.valid() || all <= rows || width == 1 || skipped_border(schedule)) return false;
  const std::vector<ColumnRun> runs = runs_of_columns();
  return !runs.empty() && cut_for_panels(runs.front()).has_value();
}

bool ContractionTiling::packs_lines(const Schedule& schedule) const {
  return (te::work_of(roles_.lane_factor) > 0 || lines_lie_apart()) && may_pack_lines(schedule);
}

std::optional<SumCut> ContractionTiling::cut_for_cache(const ColumnRun& across) const {
  const std::int64_t room =
      rows_lie_side_by_side() ? std::min(kLineBytes, analysis_.target().l1_bytes / 3) : kLineBytes;
  const std::int64_t most = lines_in_cache(across, room);
  auto depth = cut_sum(most);
  return depth && depth->turns >= 2 * most ? depth : std::nullopt;
}

std::optional<SumCut> ContractionTiling::cut_for_panels(const ColumnRun& across) const {
  if (!fused_ || roles_.lane_in_rows) return std::nullopt;
  // Beside the rows that they are multiplied with, and sums of passes before.
  if (auto depth = cut_sum(lines_in_cache(across, analysis_.target().l1_bytes / 3))) return depth;
  if (cut_sum(kLongestSum)) return std::nullopt;
  SumCut whole;
  whole.inner = reduction_order();
  for (VarId axis : whole.inner) {
    if (!extent(axis).is_constant()) return std::nullopt;
    whole.turns *= extent(axis).constant();
  }
  return whole.turns <= 2 * kLongestSum ? std::optional(whole) : std::nullopt;
}

std::optional<SumCut> ContractionTiling::cut_sum(std::int64_t most) const {
  if (!fused_ || roles_.lane_in_rows) return std::nullopt;
  std::vector<VarId> order = reduction_order();
  SumCut depth;
  std::int64_t inner = 1, whole = 1;
  bool full = false;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (!extent(*axis).is_constant() || extent(*axis).is(0)) return std::nullopt;
    std::int64_t turns = extent(*axis).constant(), factor = full ? 1 : std::min(turns, most / inner);
    while (factor > 1 && turns % factor != 0) --factor;
    if (factor == turns) {
      depth.inner.insert(depth.inner.begin(), *axis);
    } else if (factor > 1) {
      depth.split = *axis;
      depth.factor = factor;
      full = true;
    } else {
      depth.outer.insert(depth.outer.begin(), *axis);
      full = true;
    }
    inner *= factor;
    whole *= turns;
  }
  bool cut = inner >= most / 4 && (depth.split.valid() || !depth.outer.empty());
  depth.turns = whole;
  return cut ? std::optional(depth) : std::nullopt;
}

std::vector<VarId> ContractionTiling::reduction_order() const {
  std::vector<VarId> order = stage_.reduction;
  auto next = std::find_if(order.begin(), order.end(), [this](VarId axis) {
    bool contiguous = extent(axis).is_constant() && extent(axis).constant() >= 8;
    te::for_each_node(roles_.row_factor, [&](const ExprNode& node) {
      if (!te::is_load(node)) return;
      auto stride = analysis_.stride(node.buffer, te::index_of(node), axis);
      contiguous = contiguous && stride && stride->is(1);
    });
    return contiguous;
  });
  if (next == order.end()) next = std::ranges::find(order, inside_);
  if (next != order.end()) std::rotate(next, next + 1, order.end());
  return order;
}

bool ContractionTiling::reads_once() const {
  std::int64_t all = 1;
  for (VarId axis : roles_.rows) all *= analysis_.size(extent(axis));
  return all <= rows;
}

std::optional<WindowBorder> ContractionTiling::skipped_border(const Schedule& schedule) const {
  if (!has_knob(schedule, kSkipPadding)) return std::nullopt;
  auto border = window_border(analysis_, stage_, roles_.row_factor);
  return border && can_skip(*border) ? std::move(border) : std::nullopt;
}

// Whether tiles can leave out what windows have beyond their picture.
bool ContractionTiling::can_skip(const WindowBorder& border) const {
  if (roles_.lane_in_rows || !tile.valid() || cut_rows().clamped) return false;
  const WindowBorder::Side* side = border.along(tile);
  if (side == nullptr) return true;
  // Rows inside must be known for each offset. An offset is written out, with a loop inside it: elements that several
  // offsets have in common would otherwise be kept in registers, and sums leave these.
  if ((fused_ ? reduction_order() : stage_.reduction).back() == side->offset) return false;
  auto is_walked = [&](const std::optional<SumCut>& depth) {
    return !depth || std::ranges::find(depth->inner, side->offset) != depth->inner.end();
  };
  for (const ColumnRun& across : runs_of_columns()) {
    if (!is_walked(cut_for_cache(across))) return false;
  }
  return is_walked(cut_sum(kLongestSum)) &&
         tile_runs(*side, cut_rows().full.constant(), rows).size() <= kMostRuns;
}

bool adds_fused(const te::Stage& stage, const Schedule& schedule) {
  return schedule.exactness != Exactness::Exact && is_float(stage.body.dtype());
}

bool skips_border(const te::Formula& formula, std::size_t stage, const Schedule& schedule,
                  const Target& target, const SymbolBindings& nominal) {
  const AccessAnalysis analysis(formula, target, nominal);
  const te::Stage& sums = formula.stages[stage];
  const auto roles = contraction_roles(analysis, sums);
  if (!roles) return false;
  const ContractionTiling tiling(analysis, sums, *roles, schedule, adds_fused(sums, schedule));
  return tiling.skipped_border(schedule).has_value();
}

}  // namespace xyntra
