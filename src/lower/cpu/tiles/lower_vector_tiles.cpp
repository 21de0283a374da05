#include "lower/cpu/tiles/lower_vector_tiles.h"

#include <algorithm>

#include "lower/cpu/cpu_forms.h"
#include "lower/nested_loops.h"
#include "schedule/contraction/tile_rows.h"

namespace xyntra {

using kir::Intrinsic;
using kir::LoopKind;
using kir::Operand;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kMostPanels = 4;
constexpr std::int64_t kRowsOfItem = 128;  // about, unless a plan says otherwise

// What one instruction does: sums of so many rows and columns, a group of neighbours along k. The highest tile, and the vectors
// of factors that wait in registers beside its sums: those of one line of b, or those of a's rows.
struct VectorUnit {
  Intrinsic multiply;
  std::int64_t rows, columns, group, most_rows;
  bool keeps_lines;

  std::int64_t lanes() const { return rows * columns; }
  std::int64_t across(std::int64_t panels) const { return panels * kTileColumns / columns; }
  std::int64_t down(std::int64_t height) const { return (height + rows - 1) / rows; }
  // Of tiles of nearly one size that make so many rows.
  std::int64_t even_height(std::int64_t all) const {
    const std::int64_t tiles = (all + most_rows - 1) / most_rows;
    return std::min(most_rows, down((all + tiles - 1) / tiles) * rows);
  }
  std::int64_t registers(std::int64_t height, std::int64_t panels) const {
    const std::int64_t waiting = keeps_lines ? across(panels) + 1 : down(height) + 2;
    return down(height) * across(panels) + waiting;
  }
};
constexpr VectorUnit kPairsOfBf16{Intrinsic::Dot2Bf16, 1, 16, 2, 14, true};
constexpr VectorUnit kQuadsOfBf16{Intrinsic::MmlaBf16, 2, 2, 4, 6, false};
constexpr VectorUnit kQuadsOfBytes{Intrinsic::Dot4I8, 1, 16, 4, 14, true};
constexpr VectorUnit kOctetsOfBytes{Intrinsic::MmlaI8, 2, 2, 8, 6, false};

class VectorTiles {
 public:
  VectorTiles(Lowering& lowering, const Stage& stage, TileForm form, TileRows rows, const VectorUnit& unit)
      : lowering_(lowering),
        stage_(stage),
        form_(std::move(form)),
        tile_(rows),
        unit_(unit),
        depth_(form_.depth()) {
    stored_together_ =
        lowering_.contiguous_in_blocks(stage_.target, stage_.store, form_.n, kMostPanels * kTileColumns);
  }

  std::vector<Stmt> phases() {
    const std::int64_t depth = extent(form_.k).constant();
    blocks_ = depth / depth_;
    tail_ = depth % depth_;
    Forms& forms = lowering_.forms();
    const std::int64_t of_unit = unit_.most_rows;
    unit_.most_rows = forms.knob("tile_rows", of_unit);
    item_rows_ = forms.knob("item_rows", kRowsOfItem);
    if (!forms.allows("tile_rows", unit_.most_rows <= of_unit,
                      "registers hold " + std::to_string(of_unit) + " at most"))
      return {};
    height_ = unit_.most_rows;
    if (const Dim rows = row_count(); rows.is_constant() && rows.constant() > 0)
      height_ = unit_.even_height(rows.constant());
    std::int64_t panels = forms.knob("panels", kMostPanels);
    const std::int64_t columns = extent(form_.n).constant(),
                       all = (columns + kTileColumns - 1) / kTileColumns;
    while (panels > 1 &&
           (panels > all || unit_.registers(height_, panels) > lowering_.target().vector_registers))
      --panels;
    const std::int64_t whole = all / panels, rest = all % panels;
    std::vector<Stmt> made{phase({0, whole, panels})};
    if (rest > 0) made.push_back(phase({whole * panels * kTileColumns, 1, rest}));
    return made;
  }

  // Rows of a stage of attention, for all columns, inside a work item. k fills whole blocks there, and panels come in twos.
  Stmt block(const Substitution& bound, const RowBlock& rows, const Expr& from, kir::BufferId kept) {
    blocks_ = ceil_div(extent(form_.k), depth_);
    height_ = std::min(rows.count, unit_.even_height(rows.count));
    const std::int64_t panels = unit_.registers(height_, 2) <= lowering_.target().vector_registers ? 2 : 1;
    const VarId panel =
        lowering_.loop(name(form_.n), ceil_div(extent(form_.n), 2 * kTileColumns) * (2 / panels));
    Block block{bound, Expr::variable(panel) * Expr::index(panels * kTileColumns), panels, true, kept};
    block.masked = !extent(form_.n).is_constant() || extent(form_.n).constant() % (2 * kTileColumns) != 0;
    const VarId turn = lowering_.loop("t", rows.count / height_);
    const Tile one{rows.first + Expr::variable(turn) * Expr::index(height_), height_, false, from};
    return Stmt::loop(LoopKind::Serial, panel, Stmt::loop(LoopKind::Serial, turn, tile(block, one)));
  }

 private:
  // `count` times `panels` panels of 16 columns, from `first` on.
  struct Panels {
    std::int64_t first = 0, count = 1, panels = 1;
  };
  struct Block {
    Substitution bound;
    Expr column;  // the first one
    std::int64_t panels = 1;
    bool masked = false;  // columns beyond the last one are padding
    kir::BufferId kept;  // sums on their way out of the registers
  };
  struct Tile {
    Expr first;  // row
    std::int64_t height = 1;
    bool clamped = false;  // rows beyond the last repeat it, and are not stored
    Expr from = {};  // rows before were stored by others; undefined: none were
  };

  Dim row_count() const { return tile_.count(lowering_.formula()); }
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }
  const std::string& name(VarId loop) const { return lowering_.formula().variable(loop).name; }

  bool panels_outside(std::int64_t columns_together) const {
    std::int64_t rows = 1;
    for (VarId loop : form_.rows) rows *= lowering_.size(extent(loop));
    return panels_are_outside(lowering_, stage_, form_, columns_together,
                              (rows + item_rows_ - 1) / item_rows_);
  }

  Stmt phase(const Panels& across) {
    std::vector<VarId> grid;
    Block block;
    auto over = [&](VarId axis, const Dim& turns) {
      if (turns.is(1)) return Expr::index(0);
      grid.push_back(lowering_.loop(name(axis), turns));
      return Expr::variable(grid.back());
    };
    auto columns = [&] {
      block.column =
          Expr::index(across.first) + over(form_.n, across.count) * Expr::index(across.panels * kTileColumns);
    };
    block.panels = across.panels;
    block.masked = across.first + across.count * across.panels * kTileColumns > extent(form_.n).constant();
    for (const auto* list : {&form_.batch, &form_.columns}) {
      for (VarId axis : *list) block.bound[axis.index] = over(axis, extent(axis));
    }
    const bool outside = panels_outside(across.panels * kTileColumns);
    if (outside) columns();
    for (VarId axis : form_.rows) {
      if (axis != tile_.axis && axis != tile_.outer) block.bound[axis.index] = over(axis, extent(axis));
    }
    const Dim rows = row_count(), tiles = ceil_div(rows, height_);
    std::int64_t group = std::max<std::int64_t>(1, item_rows_ / height_);
    if (tiles.is_constant()) group = even_part(tiles.constant(), group);
    const Expr first = over(tile_.axis, ceil_div(tiles, group)) * Expr::index(group);
    if (!outside) columns();
    const std::int64_t kept_rows = unit_.down(height_) * unit_.rows;
    block.kept =
        lowering_.scratch("c", form_.sum(), {kept_rows, across.panels * kTileColumns}, Scope::Shared);
    Stmt body = Lowering::where_any(rows, over_tiles(block, first, group));
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    return in_loops(LoopKind::Grid, grid, std::move(body));
  }

  // Groups of nearly one size.
  static std::int64_t even_part(std::int64_t tiles, std::int64_t most) {
    const std::int64_t groups = std::max<std::int64_t>(1, (tiles + most - 1) / most);
    return std::max<std::int64_t>(1, (tiles + groups - 1) / groups);
  }

  // The tiles of a work item; the last of all is lower, or, where the number of rows is not known, repeats the last row.
  Stmt over_tiles(const Block& block, const Expr& first, std::int64_t group) {
    const Dim rows = row_count(), full = floor_div(rows, height_), rest = rows - full * height_;
    auto low = [&] {
      const Expr begin = Expr::size(full * height_);
      if (rest.is_constant()) return tile(block, {begin, rest.constant(), false});
      const std::int64_t few = std::max(unit_.rows, unit_.most_rows / 3 / unit_.rows * unit_.rows);
      return Stmt::branch(Expr::size(rest) <= Expr::index(few), tile(block, {begin, few, true}),
                          tile(block, {begin, height_, true}));
    };
    if (full.is(0)) return low();
    const VarId turn = lowering_.loop("t", group);
    const Expr number = first + Expr::variable(turn);
    Stmt body = tile(block, {number * Expr::index(height_), height_, false});
    const bool even = rest.is(0) && full.is_constant() && full.constant() % group == 0;
    if (!even) {
      Stmt last;
      if (!rest.is(0)) {
        Expr is_low = equal(number, Expr::size(full));
        if (!rest.is_constant()) is_low = is_low & (Expr::index(0) < Expr::size(rest));
        last = Stmt::branch(std::move(is_low), low());
      }
      body = Stmt::branch(number < Expr::size(full), std::move(body), std::move(last));
    }
    return Stmt::loop(LoopKind::Serial, turn, std::move(body));
  }

  Stmt unrolled(const char* name, std::int64_t turns, const std::function<Stmt(const Expr&)>& body) {
    if (turns == 1) return body(Expr::index(0));
    const VarId turn = lowering_.loop(name, turns);
    return Stmt::loop(LoopKind::Unrolled, turn, body(Expr::variable(turn)));
  }
  Stmt in_lanes(std::int64_t turns, const std::function<Stmt(const Expr&)>& body) {
    const VarId lane = lowering_.loop("l", turns);
    return Stmt::loop(LoopKind::Vector, lane, body(Expr::variable(lane)));
  }

  Stmt tile(const Block& block, const Tile& tile) {
    const std::int64_t down = unit_.down(tile.height), across = unit_.across(block.panels);
    const kir::BufferId sums =
        lowering_.scratch("acc", form_.sum(), {down, across, unit_.lanes()}, Scope::Register);
    auto each = [&](const std::function<Stmt(const Expr&, const Expr&)>& body) {
      return unrolled("r", down, [&](const Expr& r) {
        return unrolled("v", across, [&](const Expr& v) { return body(r, v); });
      });
    };
    Stmt cleared = each([&](const Expr& r, const Expr& v) {
      return in_lanes(unit_.lanes(), [&](const Expr& l) {
        return Stmt::store(sums, {r, v, l}, Expr::number(form_.sum(), 0));
      });
    });
    // The rows of a vector of sums leave it one by one.
    Stmt kept = each([&](const Expr& r, const Expr& v) {
      return unrolled("i", unit_.rows, [&](const Expr& i) {
        return in_lanes(unit_.columns, [&](const Expr& l) {
          return Stmt::store(block.kept,
                             {r * Expr::index(unit_.rows) + i, v * Expr::index(unit_.columns) + l},
                             Expr::load(sums, form_.sum(), {r, v, i * Expr::index(unit_.columns) + l}));
        });
      });
    });
    return Stmt::block(
        {std::move(cleared), products(block, tile, sums), std::move(kept), results(block, tile)});
  }

  // ---- the sum

  Stmt products(const Block& block, const Tile& tile, kir::BufferId sums) {
    Substitution bound = block.bound;
    std::vector<VarId> loops;
    for (VarId axis : form_.deeper) {
      loops.push_back(lowering_.loop(name(axis), extent(axis)));
      bound[axis.index] = Expr::variable(loops.back());
    }
    auto turn = [&](const Expr& k, std::int64_t count) {
      bound[form_.k.index] = k;
      return unit_.keeps_lines ? by_rows(block, tile, sums, bound, count)
                               : by_columns(block, tile, sums, bound, count);
    };
    auto groups = [&](const Expr& from, std::int64_t count) {
      const VarId group = lowering_.loop("p", count);
      return Stmt::loop(LoopKind::Serial, group,
                        turn(from + Expr::variable(group) * Expr::index(unit_.group), unit_.group));
    };
    std::vector<Stmt> steps;
    if (!blocks_.is(0)) {
      const VarId step = lowering_.loop(name(form_.k), blocks_);
      const Expr first = Expr::variable(step) * Expr::index(depth_);
      steps.push_back(Stmt::loop(LoopKind::Serial, step, groups(first, depth_ / unit_.group)));
    }
    const std::int64_t whole = tail_ / unit_.group;
    auto rest = [&](std::int64_t from) { return Expr::size(blocks_ * depth_ + from); };
    if (whole > 0) steps.push_back(groups(rest(0), whole));
    if (tail_ % unit_.group > 0) steps.push_back(turn(rest(whole * unit_.group), tail_ % unit_.group));
    Stmt body = Stmt::block(std::move(steps));
    return in_loops(LoopKind::Serial, loops, std::move(body));
  }

  Operand factor(const Expr& load, const Substitution& bound) {
    const Expr at = lowering_.body(load, bound).value;
    return {kir::BufferId(at->buffer.index), te::index_of(*at), {}};
  }
  Operand row(const Tile& tile, Substitution bound, const Expr& number) {
    Expr m = tile.first + number;
    if (tile.clamped) m = te::min(m, Expr::size(row_count() - 1));
    // From where the first row lies the others follow, across lines too.
    if (tile_.outer.valid()) bound[tile_.outer.index] = Expr::index(0);
    if (tile_.axis.valid()) bound[tile_.axis.index] = m;
    return factor(form_.a, bound);
  }
  static Operand number(std::int64_t value) { return {{}, {}, Expr::index(value)}; }

  // The lines of b stay in registers while one row after another is multiplied by them.
  Stmt by_rows(const Block& block, const Tile& tile, kir::BufferId sums, const Substitution& bound,
               std::int64_t count) {
    return unrolled("r", unit_.down(tile.height), [&](const Expr& r) {
      return unrolled("v", block.panels, [&](const Expr& v) {
        Substitution at = bound;
        at[form_.n.index] = block.column + v * Expr::index(kTileColumns);
        return Stmt::call(unit_.multiply, {Operand{sums, {r, v, Expr::index(0)}, {}}, row(tile, bound, r),
                                           factor(form_.b, at), number(count)});
      });
    });
  }

  // All rows of a stay in registers while one column after another passes by.
  Stmt by_columns(const Block& block, const Tile& tile, kir::BufferId sums, const Substitution& bound,
                  std::int64_t count) {
    const std::int64_t in_panel = kTileColumns / unit_.columns;
    return unrolled("w", block.panels, [&](const Expr& panel) {
      return unrolled("v", in_panel, [&](const Expr& v) {
        Substitution at = bound;
        at[form_.n.index] = block.column + panel * Expr::index(kTileColumns) + v * Expr::index(unit_.columns);
        return unrolled("r", unit_.down(tile.height), [&](const Expr& r) {
          const Expr first = r * Expr::index(unit_.rows);
          // Where there is no second row, the first is multiplied twice, and one of the results dropped.
          Expr second = first + Expr::index(1);
          if (tile.height % unit_.rows != 0) second = te::min(second, Expr::index(tile.height - 1));
          return Stmt::call(
              unit_.multiply,
              {Operand{sums, {r, panel * Expr::index(in_panel) + v, Expr::index(0)}, {}},
               row(tile, bound, first), row(tile, bound, second), factor(form_.b, at), number(count)});
        });
      });
    });
  }

  // ---- the epilogue

  Stmt results(const Block& block, const Tile& tile) {
    const VarId turn = lowering_.loop("r", tile.height);
    const Expr r = Expr::variable(turn), m = tile.first + r;
    Stmt body = row_of_results(block, m, r);
    if (tile.clamped) body = Stmt::branch(m < Expr::size(row_count()), std::move(body));
    if (tile.from.defined()) body = Stmt::branch(m >= tile.from, std::move(body));
    return Stmt::loop(LoopKind::Serial, turn, std::move(body));
  }

  Stmt row_of_results(const Block& block, const Expr& m, const Expr& kept) {
    // Adjacent panels are one vector, where that is in one piece.
    const std::int64_t vectors = block.masked || !stored_together_ ? block.panels : 1,
                       width = block.panels / vectors * kTileColumns;
    std::vector<Stmt> panels;
    for (std::int64_t v = 0; v < vectors; ++v) {
      panels.push_back(in_lanes(width, [&](const Expr& lane) {
        const Expr within = Expr::index(v * width) + lane, column = block.column + within;
        Substitution bound = block.bound;
        tile_.bind(bound, m);
        bound[form_.n.index] = column;
        const Expr value = Expr::load(block.kept, form_.sum(), {kept, within});
        Lowering::Body result{{}, value};
        if (stage_.finish.defined()) result = lowering_.body(stage_.finish, bound, value);
        Stmt store = lowering_.store(stage_, bound, std::move(result));
        if (!block.masked) return store;
        return Stmt::branch(column < Expr::size(extent(form_.n)), std::move(store));
      }));
    }
    Stmt body = Stmt::block(std::move(panels));
    if (!tile_.outer.valid() || extent(tile_.axis).is(tile_.pitch)) return body;
    return Stmt::branch(mod(m, Expr::index(tile_.pitch)) < Expr::size(extent(tile_.axis)), std::move(body));
  }

  Lowering& lowering_;
  const Stage& stage_;
  TileForm form_;
  TileRows tile_;
  VectorUnit unit_;
  std::int64_t height_ = 1, item_rows_ = kRowsOfItem;
  std::int64_t depth_ = kTileDepth;  // of a block along k
  Dim blocks_ = 0;
  std::int64_t tail_ = 0;  // what is left
  bool stored_together_ = false;  // results of all panels
};

const VectorUnit* unit_of(const Lowering& lowering, const TileForm& form) {
  const bool wide = form.a.dtype() == DType::BF16;
  switch (product_unit(lowering.target(), form.a.dtype())) {
    case ProductUnit::Lines: return wide ? &kPairsOfBf16 : &kQuadsOfBytes;
    case ProductUnit::Squares: return wide ? &kQuadsOfBf16 : &kOctetsOfBytes;
    case ProductUnit::None:
    case ProductUnit::Tiles: break;
  }
  return nullptr;
}

}  // namespace

std::vector<Stmt> lower_vector_tiles(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  if (schedule.kind != ScheduleKind::Tiles) return {};
  auto form = tile_form(lowering.formula(), stage, lowering.nominal());
  if (!form || !is_paired(lowering.formula(), *form)) return {};
  auto rows = tile_rows(lowering, *form);
  const VectorUnit* unit = unit_of(lowering, *form);
  if (!rows || unit == nullptr || !has_unit(lowering.target(), *form)) return {};
  return VectorTiles(lowering, stage, std::move(*form), *rows, *unit).phases();
}

Stmt lower_vector_block(Lowering& lowering, const Stage& stage, kir::BufferId kept, const Substitution& bound,
                        const RowBlock& rows, const Expr& from) {
  auto form = tile_form(lowering.formula(), stage, lowering.nominal(), TileSizes::Any);
  if (!form || !is_paired(lowering.formula(), *form)) return {};
  auto tile = tile_rows(lowering, *form, rows.axis);
  const VectorUnit* unit = unit_of(lowering, *form);
  if (!tile || unit == nullptr) return {};
  return VectorTiles(lowering, stage, std::move(*form), *tile, *unit).block(bound, rows, from, kept);
}

}  // namespace xyntra
