#include "lower/cpu/contraction/lower_contraction.h"

#include <algorithm>

#include "lower/cpu/contraction/line_panels.h"
#include "lower/cpu/contraction/register_tile.h"
#include "lower/cpu/contraction/tiles_together.h"
#include "lower/nested_loops.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

// Which work items there are, and which tiles each of them has.
class ContractionLowering {
 public:
  ContractionLowering(Lowering& lowering, const Stage& stage, ContractionRoles roles,
                      const Schedule& schedule)
      : contraction_(lowering, stage, std::move(roles), schedule) {}

  std::vector<Stmt> phases(const Schedule& schedule) {
    Forms& forms = lowering_.forms();
    contraction_.packs_lines = forms.knob("pack_lines", tiling_.packs_lines(schedule) ? 1 : 0) != 0;
    if (!forms.allows("pack_lines", !contraction_.packs_lines || tiling_.may_pack_lines(schedule),
                      "what several tiles read can be packed"))
      contraction_.packs_lines = false;
    auto turns_of = [&](const std::vector<VarId>& loops) {
      std::int64_t product = 1;
      for (VarId loop : loops) product *= std::max<std::int64_t>(1, lowering_.loop_size(loop));
      return product;
    };
    Substitution bound;
    std::vector<VarId> batch, adjacent, columns, rows;
    auto over = [&](std::vector<VarId>& grid, VarId axis, const Dim& turns) {
      if (turns.is(1)) return Expr::index(0);
      grid.push_back(lowering_.loop(name(axis), turns));
      return Expr::variable(grid.back());
    };
    for (VarId axis : roles_.batch)
      bound[axis.index] = over(is_adjacent(axis) ? adjacent : batch, axis, extent(axis));
    for (VarId axis : roles_.columns) {
      if (tiling_.second != axis) bound[axis.index] = over(columns, axis, extent(axis));
    }
    std::vector<Stmt> made;
    const std::size_t outer = columns.size();
    for (const ColumnRun& across : tiling_.runs_of_columns()) {
      columns.resize(outer);
      rows.clear();
      ColumnRun placed = across;
      if (tiling_.second.valid()) placed.second = over(columns, tiling_.second, across.second_tiles);
      if (!across.blocks.is(1)) {
        columns.push_back(lowering_.loop(name(roles_.lane), across.blocks));
        placed.base = across.base + Expr::variable(columns.back()) * Expr::index(tiling_.lanes_of(across));
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
      const bool rows_outside = tiling_.rows_go_outside(turns_of(columns), turns_of(rows));
      for (const auto* part : {rows_outside ? &rows : &columns, rows_outside ? &columns : &rows})
        grid.insert(grid.end(), part->begin(), part->end());
      grid.insert(grid.end(), adjacent.begin(), adjacent.end());
      if (grid.empty()) grid.push_back(lowering_.loop("g", 1));  // what stands together is one phase
      made.push_back(in_loops(LoopKind::Grid, grid, std::move(body)));
    }
    return made;
  }

  // A block of rows for all columns, one tile after another.
  Stmt block(Substitution bound, const RowBlock& rows) {
    tiling_.tile = rows.axis;
    contraction_.added = rows.added;
    contraction_.ahead = rows.ahead;
    contraction_.added_lane = rows.lane;
    std::vector<VarId> loops;
    auto over = [&](VarId axis, const Dim& turns) {
      if (turns.is(1)) return Expr::index(0);
      loops.push_back(lowering_.loop(name(axis), turns));
      return Expr::variable(loops.back());
    };
    for (VarId axis : roles_.columns) {
      if (tiling_.second != axis) bound[axis.index] = over(axis, extent(axis));
    }
    std::vector<Stmt> runs;
    for (ColumnRun& run : tiling_.runs_of_columns()) {
      std::vector<VarId> second;
      run.second = Expr::index(0);
      if (tiling_.second.valid() && run.second_tiles > 1) {
        second.push_back(lowering_.loop(name(tiling_.second), run.second_tiles));
        run.second = Expr::variable(second.back());
      }
      Stmt one;
      if (run.blocks.is(1)) {
        one = where_columns(run, tiles_of(bound, run, rows));
      } else {
        VarId number = lowering_.loop(name(roles_.lane), run.blocks);
        run.base = run.base + Expr::variable(number) * Expr::index(tiling_.lanes_of(run));
        one = Stmt::loop(LoopKind::Serial, number, tiles_of(bound, run, rows));
      }
      runs.push_back(in_loops(LoopKind::Serial, second, std::move(one)));
    }
    Stmt body = Lowering::where_any(extent(roles_.lane), Stmt::block(std::move(runs)));
    return in_loops(LoopKind::Serial, loops, std::move(body));
  }

 private:
  // Whether neighbours along an axis are neighbours in the result, and their sums so short that stores take most of the time: work items
  // for them then follow one another, for a cache line that several threads write goes back and forth between them.
  bool is_adjacent(VarId axis) const {
    constexpr std::int64_t kShortSum = 64;
    std::int64_t terms = 1;
    for (VarId loop : stage_.reduction) terms *= std::max<std::int64_t>(1, lowering_.size(extent(loop)));
    const auto stride = lowering_.stride(stage_.target, stage_.store, axis);
    return terms <= kShortSum && stride && stride->is(1);
  }

  // All tiles of a block of rows go over the same lines of b, one after another.
  Stmt tiles_of(const Substitution& bound, const ColumnRun& across, const RowBlock& rows) {
    if (rows.tiles == 1)
      return register_tile(contraction_, bound, across, {rows.first, rows.count, false, {}});
    VarId number = lowering_.loop("t", rows.tiles);
    const Expr first = rows.first + Expr::variable(number) * Expr::index(rows.count);
    const Among among = rows.ahead ? Among{Expr::variable(number), rows.tiles, false} : Among{};
    return Stmt::loop(LoopKind::Serial, number,
                      register_tile(contraction_, bound, across, {first, rows.count, false, {}}, among));
  }

  // A masked run is there for sizes that leave columns over.
  Stmt where_columns(const ColumnRun& run, Stmt body) const {
    const Dim& columns = extent(roles_.lane);
    if (!run.masked || columns.is_constant()) return body;
    return Stmt::branch(run.base < Expr::size(columns), std::move(body));
  }

  const Dim& extent(VarId axis) const { return contraction_.extent(axis); }
  const std::string& name(VarId axis) const { return contraction_.name(axis); }

  // A full tile; where windows reach beyond their picture, as many as there are different ones.
  Stmt full_tile(const RowCut& cut, const Expr& number,
                 const std::function<Stmt(const RegisterRows&)>& make) {
    const Expr first = number.defined() ? number * Expr::index(tiling_.rows) : Expr::index(0);
    if (contraction_.side() == nullptr) {
      Stmt whole = make({first, tiling_.rows, false, {}});
      if (!cut.clamped) return whole;
      return Stmt::branch(first + Expr::index(tiling_.rows - 1) < Expr::size(cut.turns), std::move(whole),
                          make({first, tiling_.rows, true, {}}));
    }
    const std::vector<TileRun> runs = contraction_.runs_of_tiles(cut);
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

  // Tiles along one axis of the rows; the last one is lower.
  Stmt row_tiles(const Substitution& bound, const ColumnRun& across, std::vector<VarId>& grid) {
    if (!tiling_.tile.valid()) return register_tile(contraction_, bound, across, {});
    const RowCut cut = tiling_.cut_rows();
    auto at = [&](const Expr& number) {
      return full_tile(cut, number, [&](const RegisterRows& rows) {
        return register_tile(contraction_, bound, across, rows, {number, cut.full, false});
      });
    };
    if (cut.rest.is(0)) {
      if (cut.full.is(1)) return at({});
      grid.push_back(lowering_.loop(name(tiling_.tile), cut.full));
      const Expr number = Expr::variable(grid.back());
      return cut.clamped ? Stmt::branch(tiling_.is_full(cut, number), at(number)) : at(number);
    }
    if (cut.full.is(0)) return lower_tail(bound, across, cut, {});
    VarId number = lowering_.loop(name(tiling_.tile), cut.full + 1);
    grid.push_back(number);
    return Stmt::branch(tiling_.is_full(cut, Expr::variable(number)), at(Expr::variable(number)),
                        lower_tail(bound, across, cut, Expr::variable(number)));
  }

  // A work item of many tiles, summed pass by pass. Undefined where nothing is gained.
  Stmt passes(Substitution bound, const ColumnRun& across, std::vector<VarId>& grid) {
    auto depth = tiling_.cut_for_cache(across);
    if (contraction_.packs_lines) {
      if (auto shorter = tiling_.cut_for_panels(across)) depth = shorter;
    }
    if (!depth || !tiling_.tile.valid() || across.width == 1) return {};
    const RowCut cut = tiling_.cut_rows();
    const Dim &full = cut.full, &rest = cut.rest;
    const auto together = tiles_together(contraction_, across, *depth, cut);
    if (!together) return {};
    const VarId line = together->line;
    const std::int64_t lines = together->lines, tiles = together->tiles;
    for (VarId axis : roles_.rows) {
      if (axis == tiling_.tile || axis == line) continue;
      bound[axis.index] = Expr::index(0);
      if (extent(axis).is(1)) continue;
      grid.push_back(lowering_.loop(name(axis), extent(axis)));
      bound[axis.index] = Expr::variable(grid.back());
    }
    Expr first_line = Expr::index(0), first_tile = Expr::index(0);
    if (line.valid() && extent(line) != Dim(lines)) {
      grid.push_back(lowering_.loop(name(line), ceil_div(extent(line), lines)));
      first_line = Expr::variable(grid.back()) * Expr::index(lines);
    }
    // One work item may have all rows, with a lower tile at the end.
    const bool all = rest.is_constant() && full.is(tiles) && !rest.is(0);
    bool even = all || (rest.is(0) && full.is_constant() && full.constant() % tiles == 0);
    // The last one ends with what is left.
    Dim groups = even         ? floor_div(full, tiles)
                 : rest.is(0) ? ceil_div(full, tiles)
                              : floor_div(full, tiles) + 1;
    if (!groups.is(1)) {
      grid.push_back(lowering_.loop(name(tiling_.tile), groups));
      first_tile = Expr::variable(grid.back()) * Expr::index(tiles);
    }
    SumPass pass;
    pass.depth = &*depth;
    if (depth->split.valid() || !depth->outer.empty()) {
      pass.kept = lowering_.scratch(
          "c", stage_.body.dtype(),
          {lines, all ? tiles + 1 : tiles, tiling_.rows * across.vectors * across.width}, Scope::Shared);
    }
    auto over_tiles = [&](Substitution inner) {
      Stmt panel = contraction_.packs_lines ? make_panel(contraction_, inner, across, pass) : Stmt::block({});
      VarId y = lowering_.loop("y", lines), t = lowering_.loop("t", tiles);
      Substitution whole = bound;
      if (line.valid()) inner[line.index] = whole[line.index] = first_line + Expr::variable(y);
      pass.place = {Expr::variable(y), Expr::variable(t)};
      Expr number = first_tile + Expr::variable(t);
      const bool few = full.is_constant() && full.constant() < tiles;
      const Dim in_line = full.is_constant() ? Dim(few ? full.constant() : tiles) : min(full, tiles);
      Among among{Expr::variable(y) * (full.is_constant() ? Expr::index(tiles) : Expr::size(in_line)) +
                      Expr::variable(t),
                  in_line * lines, false};
      Stmt body = full_tile(cut, number, [&](const RegisterRows& rows) {
        return register_tile(contraction_, inner, across, rows, among, &pass);
      });
      if (!even) {
        Stmt last;
        if (!rest.is(0)) last = lower_tail(whole, across, cut, number);
        if (last.defined() && pass.count > 1)
          last = Stmt::branch(equal(pass.number, Expr::index(pass.count - 1)), std::move(last));
        body = Stmt::branch(tiling_.is_full(cut, number), std::move(body), std::move(last));
      }
      body = Stmt::loop(LoopKind::Serial, t, std::move(body));
      if (all) {
        pass.place = {Expr::variable(y), Expr::index(tiles)};
        Stmt lower = register_tile(contraction_, inner, across,
                                   contraction_.last_rows(tiles * tiling_.rows, rest.constant()), {}, &pass);
        body = Stmt::block({std::move(body), std::move(lower)});
      }
      if (line.valid() && !te::divides(Dim(lines), extent(line)))
        body = Stmt::branch(inner.at(line.index) < Expr::size(extent(line)), std::move(body));
      return Stmt::block({std::move(panel), Stmt::loop(LoopKind::Serial, y, std::move(body))});
    };
    return in_passes(contraction_, bound, pass, over_tiles);
  }

  // The rows that fill no tile, each of their tiles with the whole sum. `number` is that of a tile that is not full.
  Stmt lower_tail(const Substitution& bound, const ColumnRun& across, const RowCut& cut, const Expr& number) {
    const Dim first = cut.turns - cut.rest;
    auto after_full = [&](Stmt body) {
      if (number.defined()) body = Stmt::branch(equal(number, Expr::size(cut.full)), std::move(body));
      return Lowering::where_any(cut.turns, std::move(body));
    };
    if (cut.rest.is_constant() && first.is_constant())
      return after_full(register_tile(contraction_, bound, across,
                                      contraction_.last_rows(first.constant(), cut.rest.constant())));
    if (cut.rest.is_constant())
      return after_full(
          register_tile(contraction_, bound, across, {Expr::size(first), cut.rest.constant(), false, {}}));
    if (!cut.clamped) {
      VarId single = lowering_.loop("r", cut.rest);
      Stmt one = register_tile(contraction_, bound, across,
                               {Expr::size(first) + Expr::variable(single), 1, false, {}});
      return after_full(Stmt::loop(LoopKind::Serial, single, std::move(one)));
    }
    const Among alone{{}, 1, true};
    const Expr turns = Expr::size(cut.turns);
    Stmt one = Stmt::branch(
        (Expr::index(0) < turns) & equal(Expr::size(cut.rest), Expr::index(1)),
        register_tile(contraction_, bound, across, {Expr::size(cut.turns - 1), 1, false, {}}, alone));
    Stmt few = register_tile(contraction_, bound, across, {Expr::index(0), kTailRows, true, {}}, alone);
    Expr is_few = (Expr::index(1) < turns) & (turns <= Expr::index(kTailRows));
    if (number.defined()) is_few = is_few & equal(number, Expr::index(0));
    return Stmt::branch(std::move(is_few), std::move(few), after_full(std::move(one)));
  }

  TiledContraction contraction_;
  Lowering& lowering_ = contraction_.lowering;
  const Stage& stage_ = contraction_.stage;
  const ContractionRoles& roles_ = contraction_.roles;
  ContractionTiling& tiling_ = contraction_.tiling;
};

}  // namespace

std::vector<Stmt> lower_contraction(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  auto roles = contraction_roles(lowering, stage);
  if (!roles) return {};
  return ContractionLowering(lowering, stage, std::move(*roles), schedule).phases(schedule);
}

Stmt lower_row_block(Lowering& lowering, const Stage& stage, const Schedule& schedule, Substitution bound,
                     const RowBlock& rows) {
  auto roles = contraction_roles(lowering, stage);
  auto is_bound = [&](VarId axis) { return bound.contains(axis.index); };
  if (!roles || is_bound(roles->lane)) return {};
  // A batch that one factor does not have looks like rows or columns, and is a loop around the block all the same.
  std::erase_if(roles->columns, is_bound);
  std::erase_if(roles->rows, is_bound);
  for (VarId axis : stage.axes) {
    if (is_bound(axis) || axis == rows.axis || axis == roles->lane ||
        std::ranges::find(roles->columns, axis) != roles->columns.end())
      continue;
    if (!lowering.formula().variable(axis).extent.is(1)) return {};
    bound[axis.index] = Expr::index(0);
  }
  return ContractionLowering(lowering, stage, std::move(*roles), schedule).block(std::move(bound), rows);
}

}  // namespace xyntra
