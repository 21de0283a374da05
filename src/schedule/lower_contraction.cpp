#include "schedule/lower_contraction.h"

#include <algorithm>

#include "schedule/contraction_tiling.h"
#include "schedule/lines_ahead.h"
#include "schedule/window_border.h"
#include "te/compose.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::ExprNode;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kHeavyFinish =
    6;  // operations; beyond, the epilogue is a loop and not written out for every register
constexpr std::int64_t kTiles = 16;  // of one work item that is summed in passes
constexpr std::int64_t kPassTiles = 3;  // with fewer nothing is gained by passes
constexpr std::int64_t kItems = 16;  // that a kernel should have at least, for threads to share
constexpr std::size_t kMostRuns = 3;  // of tiles that lie beyond a picture in other ways: the kernel has each

// Rows of a register tile.
struct RegisterRows {
  Expr first;
  std::int64_t count = 1;
  bool clamped = false;  // those beyond the last repeat it
  RowsByOffset by_offset;  // that lie inside, where windows reach beyond their picture
};

class TileLowering {
 public:
  TileLowering(Lowering& lowering, const Stage& stage, ContractionRoles roles, const Schedule& schedule)
      : lowering_(lowering),
        stage_(stage),
        roles_(std::move(roles)),
        fused_(schedule.exactness != Exactness::Exact && is_float(stage.body.dtype())),
        tiling_(lowering, stage, roles_, schedule, fused_) {
    if (std::ranges::find(schedule.knobs, kSkipBorder, &Knob::name) != schedule.knobs.end())
      border_ = window_border(lowering_, stage_, roles_.row_factor);
    if (!skips_border()) border_.reset();
  }

  // Whether windows reach beyond their picture, and tiles can leave out what they have there.
  bool skips_border() const {
    if (!border_ || roles_.lane_in_rows || !tiling_.tile.valid() || tiling_.cut_rows().clamped) return false;
    const WindowBorder::Side* side = border_->along(tiling_.tile);
    if (side == nullptr) return true;
    // Rows inside must be known for each offset. An offset is written out, with a loop inside it: elements that several
    // offsets have in common would otherwise be kept in registers, and sums leave these.
    if ((fused_ ? tiling_.reduction_order() : stage_.reduction).back() == side->offset) return false;
    auto is_walked = [&](const std::optional<SumCut>& depth) {
      return !depth || std::ranges::find(depth->inner, side->offset) != depth->inner.end();
    };
    for (const ColumnRun& across : tiling_.runs_of_columns()) {
      if (!is_walked(tiling_.cut_for_cache(across))) return false;
    }
    return is_walked(tiling_.cut_sum(kLongestSum)) && runs_of_tiles(tiling_.cut_rows()).size() <= kMostRuns;
  }

  std::vector<Stmt> phases() {
    Substitution bound;
    std::vector<VarId> batch, columns, rows;
    auto over = [&](std::vector<VarId>& grid, VarId axis, const Dim& turns) {
      if (turns.is(1)) return Expr::index(0);
      grid.push_back(lowering_.loop(name(axis), turns));
      return Expr::variable(grid.back());
    };
    for (VarId axis : roles_.batch) bound[axis.index] = over(batch, axis, extent(axis));
    for (VarId axis : roles_.columns) {
      if (tiling_.second != axis) bound[axis.index] = over(columns, axis, extent(axis));
    }
    Expr second = tiling_.second.valid()
                      ? over(columns, tiling_.second, floor_div(extent(tiling_.second), tiling_.vectors))
                      : Expr();
    std::vector<Stmt> made;
    const std::size_t outer = columns.size();
    for (const ColumnRun& across : tiling_.runs_of_columns()) {
      columns.resize(outer);
      rows.clear();
      ColumnRun placed = across;
      placed.second = second;
      if (!across.blocks.is(1)) {
        columns.push_back(lowering_.loop(name(roles_.lane), across.blocks));
        placed.base =
            across.base + Expr::variable(columns.back()) * Expr::index(across.width * across.vectors);
      }
      Substitution inner = bound;
      Stmt tiles = passes(inner, placed, rows);
      if (!tiles.defined()) {
        for (VarId axis : roles_.rows) {
          if (axis != tiling_.tile) inner[axis.index] = over(rows, axis, extent(axis));
        }
        tiles = row_tiles(inner, placed, rows);
      }
      Stmt body = Lowering::where_any(extent(roles_.lane), where_columns(across, std::move(tiles)));
      std::vector<VarId> grid = batch;
      for (const auto* part : tiling_.in_order(columns, rows))
        grid.insert(grid.end(), part->begin(), part->end());
      if (grid.empty()) grid.push_back(lowering_.loop("g", 1));  // what stands together is one phase
      for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
        body = Stmt::loop(LoopKind::Grid, *loop, body);
      made.push_back(body);
    }
    return made;
  }

  // A block of rows for all columns, one tile after another.
  Stmt block(Substitution bound, const RowBlock& rows) {
    tiling_.tile = rows.axis;
    added_ = rows.added;
    ahead_ = rows.ahead;
    added_lane_ = rows.lane;
    std::vector<VarId> loops;
    auto over = [&](VarId axis, const Dim& turns) {
      if (turns.is(1)) return Expr::index(0);
      loops.push_back(lowering_.loop(name(axis), turns));
      return Expr::variable(loops.back());
    };
    for (VarId axis : roles_.columns) {
      if (tiling_.second != axis) bound[axis.index] = over(axis, extent(axis));
    }
    Expr second = tiling_.second.valid()
                      ? over(tiling_.second, floor_div(extent(tiling_.second), tiling_.vectors))
                      : Expr();
    std::vector<Stmt> runs;
    for (ColumnRun& run : tiling_.runs_of_columns()) {
      run.second = second;
      Stmt one;
      if (run.blocks.is(1)) {
        one = where_columns(run, tiles_of(bound, run, rows));
      } else {
        VarId number = lowering_.loop(name(roles_.lane), run.blocks);
        run.base = run.base + Expr::variable(number) * Expr::index(run.width * run.vectors);
        one = Stmt::loop(LoopKind::Serial, number, tiles_of(bound, run, rows));
      }
      runs.push_back(std::move(one));
    }
    Stmt body = Lowering::where_any(extent(roles_.lane), Stmt::block(std::move(runs)));
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      body = Stmt::loop(LoopKind::Serial, *loop, body);
    return body;
  }

 private:
  // All tiles of a block of rows go over the same lines of b, one after another.
  Stmt tiles_of(const Substitution& bound, const ColumnRun& across, const RowBlock& rows) {
    if (rows.tiles == 1) return tile(bound, across, {rows.first, rows.count, false, {}});
    VarId number = lowering_.loop("t", rows.tiles);
    const Expr first = rows.first + Expr::variable(number) * Expr::index(rows.count);
    const Among among = rows.ahead ? Among{Expr::variable(number), rows.tiles, false} : Among{};
    return Stmt::loop(LoopKind::Serial, number, tile(bound, across, {first, rows.count, false, {}}, among));
  }

  // A masked run is there for sizes that leave columns over.
  Stmt where_columns(const ColumnRun& run, Stmt body) const {
    const Dim& columns = extent(roles_.lane);
    if (!run.masked || columns.is_constant()) return body;
    return Stmt::branch(run.base < Expr::size(columns), std::move(body));
  }

  const Dim& extent(VarId axis) const { return lowering_.formula().variable(axis).extent; }
  const std::string& name(VarId axis) const { return lowering_.formula().variable(axis).name; }

  std::vector<TileRun> runs_of_tiles(const RowCut& cut) const {
    return tile_runs(*border_->along(tiling_.tile), cut.full.constant(), tiling_.rows);
  }

  // A full tile; where windows reach beyond their picture, as many as there are different ones.
  Stmt full_tile(const RowCut& cut, const Expr& number,
                 const std::function<Stmt(const RegisterRows&)>& make) {
    const Expr first = number.defined() ? number * Expr::index(tiling_.rows) : Expr::index(0);
    if (!border_ || border_->along(tiling_.tile) == nullptr)
      return make({first, tiling_.rows, cut.clamped, {}});
    const std::vector<TileRun> runs = runs_of_tiles(cut);
    Stmt made;
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
      const bool all = std::ranges::all_of(
          run->inside, [this](const RowsInside& rows) { return rows == RowsInside{0, tiling_.rows}; });
      Stmt one = make({run->count == 1 ? Expr::index(run->first * tiling_.rows) : first, tiling_.rows, false,
                       all ? RowsByOffset() : run->inside});
      made = made.defined() ? Stmt::branch(number < Expr::index(run->first + run->count), std::move(one),
                                           std::move(made))
                            : std::move(one);
    }
    return made;
  }

  // The rows that are left after the full tiles.
  RegisterRows last_rows(std::int64_t first, std::int64_t count) const {
    const WindowBorder::Side* side = border_ ? border_->along(tiling_.tile) : nullptr;
    return {Expr::index(first), count, false,
            side != nullptr ? rows_inside(*side, first, count) : RowsByOffset()};
  }

  // Tiles along one axis of the rows; the last one is lower.
  Stmt row_tiles(const Substitution& bound, const ColumnRun& across, std::vector<VarId>& grid) {
    if (!tiling_.tile.valid()) return tile(bound, across, {});
    const RowCut cut = tiling_.cut_rows();
    auto at = [&](const Expr& number) {
      return full_tile(cut, number, [&](const RegisterRows& rows) {
        return tile(bound, across, rows, {number, cut.full, false});
      });
    };
    if (cut.rest.is(0)) {
      if (cut.full.is(1)) return at({});
      grid.push_back(lowering_.loop(name(tiling_.tile), cut.full));
      return at(Expr::variable(grid.back()));
    }
    if (cut.full.is(0)) return lower_tail(bound, across, cut, {});
    VarId number = lowering_.loop(name(tiling_.tile), cut.full + 1);
    grid.push_back(number);
    return Stmt::branch(tiling_.is_full(cut, Expr::variable(number)), at(Expr::variable(number)),
                        lower_tail(bound, across, cut, Expr::variable(number)));
  }

  Stmt unrolled(const char* label, std::int64_t turns, const std::function<Stmt(const Expr&)>& body) {
    if (turns == 1) return body(Expr::index(0));
    VarId loop = lowering_.loop(label, turns);
    return Stmt::loop(LoopKind::Unrolled, loop, body(Expr::variable(loop)));
  }
  Stmt lanes(std::int64_t width, const std::function<Stmt(const Expr&)>& body) {
    if (width == 1) return body(Expr::index(0));
    VarId lane = lowering_.loop("l", width);
    return Stmt::loop(LoopKind::Vector, lane, body(Expr::variable(lane)));
  }

  // One of the passes over the tiles of a work item, or over one tile; their sums are kept in between. The first has nothing
  // to add to, the last finishes.
  struct Pass {
    const SumCut* depth = nullptr;
    kir::BufferId kept;
    std::vector<Expr> place;  // of the tile among those kept
    Expr turn;  // of the axis that is split
    Expr number;  // of this one, of so many
    std::int64_t count = 1;
    bool alone = false;  // one tile goes through all passes before the next begins
    kir::BufferId
        panel;  // the lines of b that the pass reads, where they take arithmetic: made once for all tiles
  };

  // The passes over a sum, one after another.
  Stmt add_up(const Substitution& bound, Pass& pass, const std::function<Stmt(const Substitution&)>& one) {
    Substitution deeper = bound;
    std::vector<VarId> loops;
    auto over = [&](VarId axis, const Dim& turns) {
      if (turns.is(1)) return Expr::index(0);
      loops.push_back(lowering_.loop(name(axis), turns));
      Expr turn = Expr::variable(loops.back());
      pass.number = pass.count == 1 ? turn : pass.number * Expr::size(turns) + turn;
      pass.count *= turns.constant();
      return turn;
    };
    const SumCut& depth = *pass.depth;
    for (VarId axis : depth.outer) deeper[axis.index] = over(axis, extent(axis));
    if (depth.split.valid()) pass.turn = over(depth.split, floor_div(extent(depth.split), depth.factor));
    Stmt sums = one(deeper);
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      sums = Stmt::loop(LoopKind::Serial, *loop, sums);
    return sums;
  }

  // Work items that differ in their columns alone.
  std::int64_t column_items(const ColumnRun& across) const {
    std::int64_t items = std::max<std::int64_t>(1, lowering_.size(across.blocks));
    for (VarId axis : roles_.columns)
      items *= lowering_.size(extent(axis)) / (axis == tiling_.second ? tiling_.vectors : 1);
    return items;
  }

  // Less than `part` of so many in a work item, where there would be too few for all threads; but not so few that nothing is
  // gained by passes.
  static std::int64_t shared_out(std::int64_t of, std::int64_t part, std::int64_t items, std::int64_t tiles) {
    while (part > 1 && items * (of / part) < kItems) {
      const std::int64_t fewer = largest_divisor(of, part - 1);
      if (fewer < 1 || fewer * tiles < kPassTiles) break;
      part = fewer;
    }
    return part;
  }

  static std::int64_t largest_divisor(std::int64_t of, std::int64_t most) {
    std::int64_t divisor = std::min(of, most);
    while (divisor > 1 && of % divisor != 0) --divisor;
    return divisor;
  }

  // A work item of many tiles, summed pass by pass. Undefined where nothing is gained.
  Stmt passes(Substitution bound, const ColumnRun& across, std::vector<VarId>& grid) {
    auto depth = tiling_.cut_for_cache(across);
    if (!depth && makes_panels()) depth = tiling_.cut_for_panels(across);
    if (!depth || !tiling_.tile.valid() || across.width == 1) return {};
    const RowCut cut = tiling_.cut_rows();
    const Dim &full = cut.full, &rest = cut.rest;
    VarId line;  // an axis of rows of tiles
    for (VarId axis : roles_.rows) {
      if (axis != tiling_.tile && extent(axis).is_constant() && !extent(axis).is(1)) line = axis;
    }
    std::int64_t lines = 1, tiles = 1;
    if (line.valid()) {
      bool fits = full.is_constant() && rest.is(0) && full.constant() <= kTiles;
      if (!fits) return {};
      tiles = full.constant();
      lines = shared_out(extent(line).constant(), largest_divisor(extent(line).constant(), kTiles / tiles),
                         column_items(across), tiles);
    } else {
      // As many as their rows of a stay in the second cache. Where few come out even, the last work item has less to do.
      const std::int64_t row_bytes = depth->turns * std::max(bits_of(stage_.body.dtype()) / 8, 1);
      const std::int64_t most =
          std::clamp<std::int64_t>(tiling_.cache_bytes() / (tiling_.rows * row_bytes), 4, kTiles);
      tiles = full.is_constant() ? largest_divisor(full.constant(), most) : most;
      if (full.is_constant() && tiles < std::min(full.constant(), most / 2)) tiles = most;
      if (full.is_constant() && tiles > 0 && full.constant() % tiles == 0)
        tiles = shared_out(full.constant(), tiles, column_items(across), 1);
    }
    if (lines * tiles < kPassTiles) return {};
    for (VarId axis : roles_.rows) {
      if (axis == tiling_.tile || axis == line) continue;
      bound[axis.index] = Expr::index(0);
      if (extent(axis).is(1)) continue;
      grid.push_back(lowering_.loop(name(axis), extent(axis)));
      bound[axis.index] = Expr::variable(grid.back());
    }
    Expr first_line = Expr::index(0), first_tile = Expr::index(0);
    if (line.valid() && extent(line) != Dim(lines)) {
      grid.push_back(lowering_.loop(name(line), floor_div(extent(line), lines)));
      first_line = Expr::variable(grid.back()) * Expr::index(lines);
    }
    // One work item may have all rows, with a lower tile at the end.
    const bool all = rest.is_constant() && full.is(tiles) && !rest.is(0);
    bool even = all || (rest.is(0) && full.is_constant() && full.constant() % tiles == 0);
    Dim groups =
        even ? floor_div(full, tiles) : floor_div(full, tiles) + 1;  // the last one ends with what is left
    if (!groups.is(1)) {
      grid.push_back(lowering_.loop(name(tiling_.tile), groups));
      first_tile = Expr::variable(grid.back()) * Expr::index(tiles);
    }
    Pass pass;
    pass.depth = &*depth;
    if (depth->split.valid() || !depth->outer.empty()) {
      pass.kept = lowering_.scratch(
          "c", stage_.body.dtype(),
          {lines, all ? tiles + 1 : tiles, tiling_.rows, tiling_.vectors_of(across), across.width},
          Scope::Shared);
    }
    auto over_tiles = [&](Substitution inner) {
      Stmt panel = makes_panels() ? make_panel(inner, across, pass) : Stmt::block({});
      VarId y = lowering_.loop("y", lines), t = lowering_.loop("t", tiles);
      if (line.valid()) inner[line.index] = first_line + Expr::variable(y);
      pass.place = {Expr::variable(y), Expr::variable(t)};
      Expr number = first_tile + Expr::variable(t);
      const bool few = full.is_constant() && full.constant() < tiles;
      Among among{Expr::variable(y) * Expr::index(tiles) + Expr::variable(t),
                  few || !full.is_constant() ? full * lines : Dim(lines * tiles), false};
      Stmt body = full_tile(
          cut, number, [&](const RegisterRows& rows) { return tile(inner, across, rows, among, &pass); });
      if (!even) {
        Stmt last;
        if (!rest.is(0)) last = lower_tail(bound, across, cut, number);
        if (last.defined() && pass.count > 1)
          last = Stmt::branch(equal(pass.number, Expr::index(pass.count - 1)), std::move(last));
        body = Stmt::branch(tiling_.is_full(cut, number), std::move(body), std::move(last));
      }
      body = Stmt::loop(LoopKind::Serial, t, std::move(body));
      if (all) {
        pass.place = {Expr::variable(y), Expr::index(tiles)};
        Stmt lower = tile(inner, across, last_rows(tiles * tiling_.rows, rest.constant()), {}, &pass);
        body = Stmt::block({std::move(body), std::move(lower)});
      }
      return Stmt::block({std::move(panel), Stmt::loop(LoopKind::Serial, y, std::move(body))});
    };
    return add_up(bound, pass, over_tiles);
  }

  // Whether lines of b take arithmetic: they are narrow in memory, and wide in a panel.
  bool makes_panels() const {
    return te::work_of(roles_.lane_factor) > 0 && !roles_.lane_in_rows && !border_;
  }

  // The lines of b that one pass reads, made before its tiles read them.
  Stmt make_panel(const Substitution& bound, const ColumnRun& across, Pass& pass) {
    std::int64_t lines = pass.depth->factor;
    for (VarId axis : pass.depth->inner) lines *= extent(axis).constant();
    pass.panel = lowering_.scratch("w", stage_.body.dtype(),
                                   {lines, tiling_.vectors_of(across), across.width}, Scope::Shared);
    return turns(bound, &pass, false, [&](const Substitution& inner, const Walk& walk, bool) {
      return line_of(inner, walk, across, nullptr, [&](const Expr& vector, const Expr& lane, Expr value) {
        return Stmt::store(pass.panel, {walk.turn, vector, lane}, std::move(value));
      });
    });
  }

  // A line of b, vector by vector, from the panel of the pass where it has one; zeros beyond the last column.
  Stmt line_of(const Substitution& bound, const Walk& walk, const ColumnRun& across, const Pass* pass,
               const std::function<Stmt(const Expr& vector, const Expr& lane, Expr value)>& store) {
    const DType dtype = stage_.body.dtype();
    return unrolled("v", tiling_.vectors_of(across), [&](const Expr& vector) {
      return lanes(across.width, [&](const Expr& lane) {
        if (pass != nullptr && pass->panel.valid())
          return store(vector, lane, Expr::load(pass->panel, dtype, {walk.turn, vector, lane}));
        Lowering::Body value =
            lowering_.body(roles_.lane_factor, tiling_.at_column(across, bound, vector, lane));
        value.checks.push_back(store(vector, lane, value.value));
        return where_column(across, vector, lane, Stmt::block(std::move(value.checks)),
                            store(vector, lane, Expr::number(dtype, 0)));
      });
    });
  }

  Stmt where_column(const ColumnRun& across, const Expr& vector, const Expr& lane, Stmt inside,
                    Stmt outside) const {
    if (!across.masked) return inside;
    Expr column = across.base + vector * Expr::index(across.width) + lane;
    return Stmt::branch(column < Expr::size(extent(roles_.lane)), std::move(inside), std::move(outside));
  }

  // The rows that fill no tile, each of their tiles with the whole sum. `number` is that of a tile that is not full.
  Stmt lower_tail(const Substitution& bound, const ColumnRun& across, const RowCut& cut, const Expr& number) {
    const Dim first = cut.turns - cut.rest;
    auto after_full = [&](Stmt body) {
      if (number.defined()) body = Stmt::branch(equal(number, Expr::size(cut.full)), std::move(body));
      return Lowering::where_any(cut.turns, std::move(body));
    };
    if (cut.rest.is_constant() && first.is_constant())
      return after_full(tile(bound, across, last_rows(first.constant(), cut.rest.constant())));
    if (cut.rest.is_constant())
      return after_full(tile(bound, across, {Expr::size(first), cut.rest.constant(), false, {}}));
    if (!cut.clamped) {
      VarId single = lowering_.loop("r", cut.rest);
      Stmt one = tile(bound, across, {Expr::size(first) + Expr::variable(single), 1, false, {}});
      return after_full(Stmt::loop(LoopKind::Serial, single, std::move(one)));
    }
    const Among alone{{}, 1, true};
    const Expr turns = Expr::size(cut.turns);
    Stmt one = Stmt::branch((Expr::index(0) < turns) & equal(Expr::size(cut.rest), Expr::index(1)),
                            tile(bound, across, {Expr::size(cut.turns - 1), 1, false, {}}, alone));
    Stmt few = tile(bound, across, {Expr::index(0), kTailRows, true, {}}, alone);
    Expr is_few = (Expr::index(1) < turns) & (turns <= Expr::index(kTailRows));
    if (number.defined()) is_few = is_few & equal(number, Expr::index(0));
    return Stmt::branch(std::move(is_few), std::move(few), after_full(std::move(one)));
  }

  // One register tile whose sum is added up from shorter ones: the error of a sum grows with its length.
  Stmt tile_of_short_sums(const SumCut& depth, const Substitution& bound, const ColumnRun& across,
                          const RegisterRows& rows, const Among& among) {
    Pass pass;
    pass.depth = &depth;
    pass.alone = true;
    pass.kept = lowering_.scratch("c", stage_.body.dtype(),
                                  {rows.count, tiling_.vectors_of(across), across.width}, Scope::Shared);
    return add_up(bound, pass,
                  [&](const Substitution& inner) { return tile(inner, across, rows, among, &pass); });
  }

  // One register tile: all of the sum, then the epilogue; or what one pass does to it.
  Stmt tile(const Substitution& bound, const ColumnRun& across, const RegisterRows& of_rows,
            const Among& among = {}, const Pass* pass = nullptr) {
    if (pass == nullptr) {
      auto depth = tiling_.cut_sum(kLongestSum);
      if (depth) return tile_of_short_sums(*depth, bound, across, of_rows, among);
    }
    const auto& [first_row, rows, clamped, by_offset] = of_rows;
    DType dtype = stage_.body.dtype();
    const std::int64_t width = across.width, vectors = tiling_.vectors_of(across);
    kir::BufferId sum = lowering_.scratch("acc", dtype, {rows, vectors, width}, Scope::Register);
    kir::BufferId line = lowering_.scratch("b", dtype, {vectors, width}, Scope::Register);
    kir::BufferId spread = lowering_.scratch("a", dtype, {}, Scope::Register);
    auto at_row = [&](Substitution variables, const Expr& row) {
      if (tiling_.tile.valid()) variables[tiling_.tile.index] = first_row.defined() ? first_row + row : row;
      return variables;
    };
    auto at_read_row = [&](Substitution variables, const Expr& row) {
      variables = at_row(std::move(variables), row);
      if (clamped) {
        Expr& index = variables[tiling_.tile.index];
        index = te::min(index, Expr::size(extent(tiling_.tile) - 1));
      }
      return variables;
    };
    auto where_row = [&](const Expr& row, Stmt inside) {
      if (!clamped) return inside;
      return Stmt::branch(at_row({}, row)[tiling_.tile.index] < Expr::size(extent(tiling_.tile)),
                          std::move(inside));
    };
    auto each = [&](const std::function<Stmt(const Expr&, const Expr&, const Expr&)>& body) {
      return unrolled("r", rows, [&](const Expr& row) {
        return unrolled("v", vectors, [&](const Expr& vector) {
          return lanes(width, [&](const Expr& lane) { return body(row, vector, lane); });
        });
      });
    };
    auto partial = [&](const Expr& row, const Expr& vector, const Expr& lane) {
      return Expr::load(sum, dtype, {row, vector, lane});
    };
    auto kept_at = [&](const Expr& row, const Expr& vector, const Expr& lane) {
      std::vector<Expr> place = pass->place;
      place.insert(place.end(), {row, vector, lane});
      return place;
    };
    std::vector<Stmt> statements;
    statements.push_back(each([&](const Expr& row, const Expr& vector, const Expr& lane) {
      return Stmt::store(sum, {row, vector, lane}, Expr::number(dtype, 0));
    }));
    if (ahead_ && stage_.finish.defined()) {
      statements.push_back(unrolled("r", rows, [&](const Expr& row) {
        auto at_place = [&](std::int64_t vector, std::int64_t lane) {
          return tiling_.at_column(across, at_row(bound, row), Expr::index(vector), Expr::index(lane));
        };
        std::vector<Substitution> places{at_place(vectors - 1, width - 1)};
        for (std::int64_t v = 0; v < vectors; ++v) places.push_back(at_place(v, 0));
        return Stmt::block(ask_for_operands(lowering_, stage_.finish, roles_.lane, places));
      }));
    }
    {
      const bool by_offsets = !by_offset.empty();
      statements.push_back(
          turns(bound, pass, by_offsets, [&](const Substitution& inner, const Walk& walk, bool only_ask) {
            std::vector<Stmt> turn = ask_ahead(bound, inner, across, among, walk, pass);
            if (only_ask) return turn.empty() ? Stmt() : Stmt::block(std::move(turn));
            turn.push_back(
                line_of(inner, walk, across, pass, [&](const Expr& vector, const Expr& lane, Expr value) {
                  return Stmt::store(line, {vector, lane}, std::move(value));
                }));
            auto add = [&](const Expr& element, const Expr& row, const Expr& vector, const Expr& lane) {
              Expr other = Expr::load(line, dtype, {vector, lane}), so_far = partial(row, vector, lane);
              return Stmt::store(sum, {row, vector, lane},
                                 fused_ ? te::fma(element, other, so_far) : so_far + element * other);
            };
            if (roles_.lane_in_rows) {
              turn.push_back(each([&](const Expr& row, const Expr& vector, const Expr& lane) {
                Lowering::Body value = lowering_.body(
                    roles_.row_factor, tiling_.at_column(across, at_read_row(inner, row), vector, lane));
                value.checks.push_back(add(value.value, row, vector, lane));
                return where_column(across, vector, lane, Stmt::block(std::move(value.checks)), {});
              }));
              return Stmt::block(std::move(turn));
            }
            const RowsInside present = rows_present(by_offset, inner, rows);
            if (present.from == present.to) return Stmt::block(std::move(turn));
            turn.push_back(unrolled("r", present.to - present.from, [&](const Expr& number) {
              const Expr row = present.from == 0 ? number : number + Expr::index(present.from);
              Lowering::Body value = row_element(at_read_row(inner, row));
              std::vector<Stmt> one = std::move(value.checks);
              one.push_back(Stmt::store(spread, {}, value.value));
              Expr element = Expr::load(spread, dtype, {});
              one.push_back(unrolled("v", vectors, [&](const Expr& vector) {
                return lanes(width, [&](const Expr& lane) { return add(element, row, vector, lane); });
              }));
              return Stmt::block(std::move(one));
            }));
            return Stmt::block(std::move(turn));
          }));
    }
    // Short sums that are added up lose fewer digits than one long one.
    auto so_far = [&](const Expr& row, const Expr& vector, const Expr& lane) {
      return Expr::load(pass->kept, dtype, kept_at(row, vector, lane));
    };
    auto keep = [&](bool first) {
      return each([&](const Expr& row, const Expr& vector, const Expr& lane) {
        Expr sum_of_part = partial(row, vector, lane);
        return Stmt::store(pass->kept, kept_at(row, vector, lane),
                           first ? sum_of_part : so_far(row, vector, lane) + sum_of_part);
      });
    };
    // What is added to for all vectors of a row stays in a register meanwhile.
    kir::BufferId total;
    if (added_ != nullptr) total = lowering_.scratch("t", added_->body.dtype(), {width}, Scope::Register);
    auto total_at = [&](const Expr& lane) { return Expr::load(total, added_->body.dtype(), {lane}); };
    auto with_total = [&](const Expr& row, Stmt body) {
      auto at_lane = [&](const Expr& lane) {
        Substitution variables = at_row(bound, row);
        variables[added_lane_.index] = lane;
        return variables;
      };
      const Expr held = Expr::load(added_->target, added_->body.dtype(), added_->store);
      Stmt before = lanes(width, [&](const Expr& lane) {
        return Stmt::store(total, {lane}, lowering_.at(held, at_lane(lane)));
      });
      Stmt after = lanes(width, [&](const Expr& lane) {
        return lowering_.store(*added_, at_lane(lane), {{}, total_at(lane)});
      });
      return Stmt::block({std::move(before), std::move(body), std::move(after)});
    };
    auto finished = [&](const Expr& value, const Expr& row, const Expr& vector, const Expr& lane) {
      Substitution variables = tiling_.at_column(across, at_row(bound, row), vector, lane);
      Lowering::Body result{{}, value};
      if (stage_.finish.defined()) result = lowering_.body(stage_.finish, variables, value);
      Stmt stored = lowering_.store(stage_, variables, std::move(result));
      if (added_ != nullptr) {
        const Expr added = lowering_.at(added_->body, variables);
        stored = Stmt::block({std::move(stored), Stmt::store(total, {lane}, total_at(lane) + added)});
      }
      return where_column(across, vector, lane, std::move(stored), {});
    };
    auto finish_each = [&](const std::function<Expr(const Expr&, const Expr&, const Expr&)>& value) {
      return unrolled("r", rows, [&](const Expr& row) {
        Stmt each_vector = unrolled("v", vectors, [&](const Expr& vector) {
          return lanes(
              width, [&](const Expr& lane) { return finished(value(row, vector, lane), row, vector, lane); });
        });
        if (added_ != nullptr) each_vector = with_total(row, std::move(each_vector));
        return where_row(row, std::move(each_vector));
      });
    };
    auto finish_kept = [&] {
      VarId row = lowering_.loop("r", rows), vector = lowering_.loop("v", vectors);
      Expr r = Expr::variable(row), v = Expr::variable(vector);
      Stmt body = lanes(width, [&](const Expr& lane) { return finished(so_far(r, v, lane), r, v, lane); });
      body = Stmt::loop(LoopKind::Serial, vector, std::move(body));
      return Stmt::loop(LoopKind::Serial, row, where_row(r, std::move(body)));
    };
    bool heavy = stage_.finish.defined() && te::work_of(stage_.finish) > kHeavyFinish && rows * vectors > 2 &&
                 added_ == nullptr;
    if (pass != nullptr && pass->count > 1) {
      Stmt last = heavy ? Stmt::block({keep(false), finish_kept()})
                        : finish_each([&](const Expr& row, const Expr& vector, const Expr& lane) {
                            return so_far(row, vector, lane) + partial(row, vector, lane);
                          });
      if (pass->count > 2) {
        last = Stmt::branch(equal(pass->number, Expr::index(pass->count - 1)), std::move(last), keep(false));
      }
      statements.push_back(Stmt::branch(equal(pass->number, Expr::index(0)), keep(true), std::move(last)));
      return Stmt::block(std::move(statements));
    }
    if (!heavy) {
      statements.push_back(finish_each(partial));
      return Stmt::block(std::move(statements));
    }
    kir::BufferId kept = lowering_.scratch("c", dtype, {rows, vectors, width}, Scope::Register);
    statements.push_back(each([&](const Expr& row, const Expr& vector, const Expr& lane) {
      return Stmt::store(kept, {row, vector, lane}, partial(row, vector, lane));
    }));
    VarId row = lowering_.loop("r", rows), vector = lowering_.loop("v", vectors);
    Stmt body = lanes(width, [&](const Expr& lane) {
      Expr value = Expr::load(kept, dtype, {Expr::variable(row), Expr::variable(vector), lane});
      return finished(value, Expr::variable(row), Expr::variable(vector), lane);
    });
    body = Stmt::loop(LoopKind::Serial, vector, std::move(body));
    statements.push_back(Stmt::loop(LoopKind::Serial, row, where_row(Expr::variable(row), std::move(body))));
    return Stmt::block(std::move(statements));
  }

  // What a tile asks memory for at a turn, which is bound by `inner`.
  std::vector<Stmt> ask_ahead(const Substitution& bound, const Substitution& inner, const ColumnRun& across,
                              const Among& among, const Walk& walk, const Pass* pass) {
    const ExprNode* lines = lines_of(lowering_, roles_, ahead_);
    if (lines == nullptr) return {};
    TileColumns columns{roles_.lane, tiling_.second, across.base, {}, across.width, across.vectors};
    if (tiling_.second.valid()) {
      columns.first_other = across.second * Expr::index(tiling_.vectors);
      columns.vectors = tiling_.vectors;
    }
    // One pass over all tiles asks for the next pass, a tile that goes through the whole sum for the next panel.
    const bool through = pass == nullptr || pass->alone;
    const std::int64_t turns = walk.turns.is_constant() ? walk.turns.constant() : 0;
    const Distance distance{pass != nullptr && pass->alone ? pass->depth->turns : turns, through};
    std::vector<Stmt> made = ask_for_next_lines(lowering_, *lines, columns, bound, among, walk, distance);
    const bool from_memory = lines_of(lowering_, roles_, false) != nullptr;
    if (!from_memory || (!tiling_.reads_once() && !among.may_be_alone)) return made;
    for (Stmt& one : ask_for_lines_soon(lowering_, *lines, columns, inner, walk))
      made.push_back(std::move(one));
    return made;
  }

  // The element that is broadcast; where windows reach beyond their picture, what is outside was left out before.
  Lowering::Body row_element(const Substitution& variables) {
    if (!border_) return lowering_.body(roles_.row_factor, variables);
    std::vector<Expr> index;
    for (const Expr& one : border_->index) index.push_back(lowering_.at(one, variables));
    return {{}, Expr::load(lowering_.placed(border_->picture), stage_.body.dtype(), std::move(index))};
  }

  // Which of the rows of a tile an offset of the window has.
  RowsInside rows_present(const RowsByOffset& inside, const Substitution& bound, std::int64_t rows) const {
    if (inside.empty()) return {0, rows};
    return inside.at(
        static_cast<std::size_t>(bound.at(border_->along(tiling_.tile)->offset.index)->int_value));
  }

  // What is done at each turn of a sum; `only_ask`: nothing but to ask for what is needed later.
  using Turn = std::function<Stmt(const Substitution& bound, const Walk& walk, bool only_ask)>;
  struct Along {
    VarId axis;
    Dim turns;
    Expr start;
    bool written_out = false;
  };

  // `by_offset`: some rows of the tile lie beyond the picture at some offsets of the window, and each is written out.
  Stmt turns(const Substitution& bound, const Pass* pass, bool by_offset, const Turn& turn) {
    std::vector<Along> steps;
    if (pass != nullptr && pass->depth->split.valid())
      steps.push_back(
          {pass->depth->split, pass->depth->factor, pass->turn * Expr::index(pass->depth->factor), false});
    const std::vector<VarId> all = fused_ ? tiling_.reduction_order() : stage_.reduction;
    for (VarId axis : pass != nullptr ? pass->depth->inner : all)
      steps.push_back(
          {axis, extent(axis), Expr::index(0), by_offset && border_->along(tiling_.tile)->offset == axis});
    Stmt made = turns_along(steps, bound, {}, turn, false);
    if (pass == nullptr) return made;
    for (VarId axis : pass->depth->outer) {
      if (is_beyond(axis))
        made = where_inside(axis, bound, std::move(made), turns_along(steps, bound, {}, turn, true));
    }
    return made;
  }

  Stmt turns_along(std::span<const Along> steps, Substitution bound, Walk walk, const Turn& turn,
                   bool only_ask) {
    if (steps.empty()) return turn(bound, walk, only_ask);
    const auto& [axis, turns, start, written_out] = steps.front();
    walk.first[axis.index] = start;
    walk.innermost = axis;
    bound[axis.index] = start;
    if (turns.is(1)) return turns_along(steps.subspan(1), std::move(bound), std::move(walk), turn, only_ask);
    auto at = [&](const Expr& number) {
      Substitution here = bound;
      here[axis.index] = start.is_integer_constant(0) ? number : start + number;
      Walk deeper = walk;
      deeper.turn = walk.turns.is(1) ? number : walk.turn * Expr::size(turns) + number;
      deeper.turns = walk.turns * turns;
      Stmt made = turns_along(steps.subspan(1), here, deeper, turn, only_ask);
      if (only_ask || !is_beyond(axis)) return made;
      return where_inside(axis, here, std::move(made),
                          turns_along(steps.subspan(1), here, deeper, turn, true));
    };
    if (written_out) {
      std::vector<Stmt> offsets;
      for (std::int64_t offset = 0; offset < turns.constant(); ++offset) {
        if (Stmt one = at(Expr::index(offset)); one.defined()) offsets.push_back(std::move(one));
      }
      return offsets.empty() ? Stmt() : Stmt::block(std::move(offsets));
    }
    VarId loop = lowering_.loop(name(axis), turns);
    Stmt body = at(Expr::variable(loop));
    return body.defined() ? Stmt::loop(LoopKind::Serial, loop, std::move(body)) : Stmt();
  }

  // Whether all rows of a tile lie beyond the picture together at some offsets of this axis.
  bool is_beyond(VarId axis) const {
    return border_ && border_->across(axis) != nullptr && border_->across(axis)->turn != tiling_.tile;
  }
  Stmt where_inside(VarId axis, const Substitution& bound, Stmt inside, Stmt outside) {
    return Stmt::branch(border_->inside(lowering_, *border_->across(axis), bound), std::move(inside),
                        std::move(outside));
  }

  Lowering& lowering_;
  const Stage& stage_;
  ContractionRoles roles_;
  bool fused_;
  ContractionTiling tiling_;
  std::optional<WindowBorder> border_;
  bool ahead_ = false;
  const Stage* added_ = nullptr;
  VarId added_lane_;
};

}  // namespace

Expr row_factor_of(const te::Formula& formula, std::size_t stage, const Target& target,
                   const SymbolBindings& nominal) {
  Lowering probe(formula, target, nominal, "probe");
  probe.place_temporaries(Scope::Workspace);
  auto roles = contraction_roles(probe, formula.stages[stage]);
  return roles && !roles->lane_in_rows ? roles->row_factor : Expr();
}

bool skips_border(const te::Formula& formula, std::size_t stage, const Schedule& schedule,
                  const Target& target, const SymbolBindings& nominal) {
  Lowering probe(formula, target, nominal, "probe");
  probe.place_temporaries(Scope::Workspace);
  auto roles = contraction_roles(probe, formula.stages[stage]);
  return roles && TileLowering(probe, formula.stages[stage], std::move(*roles), schedule).skips_border();
}

std::vector<Stmt> lower_contraction(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  auto roles = contraction_roles(lowering, stage);
  if (!roles) return {};
  return TileLowering(lowering, stage, std::move(*roles), schedule).phases();
}

Stmt lower_row_block(Lowering& lowering, const Stage& stage, const Schedule& schedule, Substitution bound,
                     const RowBlock& rows) {
  auto roles = contraction_roles(lowering, stage);
  if (!roles) return {};
  return TileLowering(lowering, stage, std::move(*roles), schedule).block(std::move(bound), rows);
}

std::optional<LaneRows> lane_rows_of(const Lowering& lowering, const Stage& stage) {
  auto roles = contraction_roles(lowering, stage);
  if (!roles || !roles->lane_in_rows) return std::nullopt;
  return LaneRows{roles->lane, roles->rows};
}

std::vector<VarId> row_axes_of(const Lowering& lowering, const Stage& stage) {
  auto roles = contraction_roles(lowering, stage);
  return roles && !roles->lane_in_rows ? roles->rows : std::vector<VarId>();
}

}  // namespace xyntra
