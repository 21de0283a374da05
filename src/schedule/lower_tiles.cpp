#include "schedule/lower_tiles.h"

#include <algorithm>
#include <bit>

#include "schedule/prepare_tiles.h"

namespace xyntra {

using kir::Intrinsic;
using kir::LoopKind;
using kir::Operand;
using kir::Scope;
using kir::Stmt;
using te::BufferId;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kRows = kTileRows, kColumns = kTileColumns, kPairs = kTilePairs, kDepth = kTileDepth;
constexpr std::int64_t kAcross = 2;  // tiles of one step, either way
constexpr std::int64_t kPassDepth = 512;  // of k in one pass: 32 KB of the panel
constexpr std::int64_t kFetching = 4;  // blocks, where their number is not known
constexpr std::int64_t kGroup = 8;  // blocks of 32 rows of one work item

// ---- the products

class TilesLowering {
 public:
  TilesLowering(Lowering& lowering, const Stage& stage, TileForm form, TileRows rows)
      : lowering_(lowering), stage_(stage), form_(std::move(form)), tile_(rows) {
    sum_ = lowering_.scratch("sum", DType::F32, {kAcross, kAcross, kRows, kColumns}, Scope::Register);
    left_ = lowering_.scratch("left", DType::BF16, {kAcross, kRows, kDepth}, Scope::Register);
    right_ = lowering_.scratch("right", DType::BF16, {kAcross, kPairs, kDepth}, Scope::Register);
    cut_depth();
  }

  std::vector<Stmt> phases() {
    std::vector<Stmt> made;
    const std::int64_t columns = extent(form_.n).constant();
    const std::int64_t wide = kAcross * kColumns, whole = columns / wide, rest = columns - whole * wide;
    if (whole > 0) made.push_back(phase({0, whole, kAcross}));
    if (rest > 0) made.push_back(phase({whole * wide, 1, (rest + kColumns - 1) / kColumns}));
    return made;
  }

 private:
  // `count` times `panels` panels of 16 columns, from `first` on.
  struct Panels {
    std::int64_t first = 0, count = 1, panels = kAcross;
  };
  struct RowTile {
    Expr first;  // row of the tile's first one
    Expr from;  // rows before were finished by others; undefined: all are new
    Expr rows;  // that there are; undefined: 16
  };
  struct Block {
    Substitution bound;
    Expr column;  // the first one
    std::int64_t panels = kAcross;
    Expr number;  // of the block among those whose sums are kept
    bool masked = false;  // columns beyond the last one are padding
    Expr turn;  // of the block in its group
    std::int64_t sharing = 1;  // blocks that fetch the next panels together
    bool fetches = false;
  };

  Dim row_count() const { return tile_.count(lowering_.formula()); }
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }
  const std::string& name(VarId loop) const { return lowering_.formula().variable(loop).name; }

  // The loops along k of one pass; the others go round the group of rows.
  void cut_depth() {
    const std::int64_t k = extent(form_.k).constant();
    steps_ = k / kDepth;
    tail_ = k % kDepth;
    factor_ = steps_;
    if (tail_ == 0) {
      factor_ = std::min<std::int64_t>(steps_, kPassDepth / kDepth);
      while (steps_ % factor_ != 0) --factor_;
    }
    std::int64_t depth = k;
    bool full = factor_ != steps_;
    for (auto axis = form_.deeper.rbegin(); axis != form_.deeper.rend(); ++axis) {
      full = full || !extent(*axis).is_constant() || depth * extent(*axis).constant() > kPassDepth;
      if (!full) depth *= extent(*axis).constant();
      (full ? outer_ : inner_).insert((full ? outer_ : inner_).begin(), *axis);
    }
    passes_ = steps_ / std::max<std::int64_t>(1, factor_);
    for (VarId axis : outer_) passes_ = extent(axis).is_constant() ? passes_ * extent(axis).constant() : 2;
  }

  // Whether panels are the outermost loop: what is read again and again should be what stays in a cache.
  bool panels_outside() const {
    std::int64_t a = 2, b = 2 * lowering_.size(extent(form_.n)), groups = 1;
    for (VarId loop : te::variables_of(form_.a)) a *= lowering_.size(extent(loop));
    for (VarId loop : stage_.reduction) b *= lowering_.size(extent(loop));
    for (VarId loop : form_.rows) groups *= lowering_.size(extent(loop));
    const std::int64_t tile = lowering_.size(row_count());
    groups = groups / std::max<std::int64_t>(1, tile) * ((tile + kGroup * 32 - 1) / (kGroup * 32));
    const std::int64_t room = lowering_.target().l2_bytes / 2;
    const std::int64_t again_a = a <= room ? 0 : a * lowering_.size(extent(form_.n)) / 32;
    const std::int64_t again_b = b <= room ? 0 : b * groups;
    return again_a < again_b;
  }

  Stmt phase(const Panels& across) {
    std::vector<VarId> grid;
    Substitution bound;
    auto over = [&](VarId axis, const Dim& turns) {
      if (turns.is(1)) return Expr::index(0);
      grid.push_back(lowering_.loop(name(axis), turns));
      return Expr::variable(grid.back());
    };
    Block block;
    block.panels = across.panels;
    auto columns = [&] {
      block.column =
          Expr::index(across.first) + over(form_.n, across.count) * Expr::index(across.panels * kColumns);
    };
    block.masked = across.first + across.count * across.panels * kColumns > extent(form_.n).constant();
    for (const auto* list : {&form_.batch, &form_.columns}) {
      for (VarId axis : *list) bound[axis.index] = over(axis, extent(axis));
    }
    // Weights come from far: those of all layers do not fit a cache. What was packed just before is near.
    const bool weight = lowering_.formula().buffer(form_.b->buffer).role == te::BufferRole::Input;
    block.fetches = across.count > 1 && weight;
    const bool outside = panels_outside();
    if (outside) columns();
    for (VarId axis : form_.rows) {
      if (axis != tile_.axis && axis != tile_.outer) bound[axis.index] = over(axis, extent(axis));
    }
    const Dim rows = row_count();
    const Dim blocks = ceil_div(rows, kAcross * kRows);
    std::int64_t group = kGroup;
    if (blocks.is_constant()) group = even_part(blocks.constant());
    Expr first = over(tile_.axis, ceil_div(blocks, group)) * Expr::index(group);
    if (!outside) columns();
    block.bound = std::move(bound);
    kept_ = lowering_.scratch("c", DType::F32, {passes_ > 1 ? group : 1, kAcross * kRows, kAcross * kColumns},
                              Scope::Shared);
    Stmt body =
        passes_ > 1 ? in_passes(block, first, group) : over_blocks(block, first, group, {}, true, true);
    body = Lowering::where_any(rows, std::move(body));
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
      body = Stmt::loop(LoopKind::Grid, *loop, body);
    return body;
  }

  // Groups of nearly one size.
  static std::int64_t even_part(std::int64_t blocks) {
    const std::int64_t groups = (blocks + kGroup - 1) / kGroup;
    return (blocks + groups - 1) / std::max<std::int64_t>(1, groups);
  }

  Stmt in_passes(Block block, const Expr& first, std::int64_t group) {
    std::vector<VarId> loops;
    Expr begun, ended;  // conditions: not the first pass, not the last
    auto pass = [&](const std::string& label, const Dim& turns) {
      loops.push_back(lowering_.loop(label, turns));
      Expr turn = Expr::variable(loops.back());
      if (turns.is(1)) return turn;
      Expr is_first = equal(turn, Expr::index(0)), is_last = equal(turn, Expr::size(turns - 1));
      begun = begun.defined() ? begun & is_first : is_first;
      ended = ended.defined() ? ended & is_last : is_last;
      return turn;
    };
    for (VarId axis : outer_) block.bound[axis.index] = pass(name(axis), extent(axis));
    Expr step = factor_ == steps_ ? Expr() : pass(name(form_.k), steps_ / factor_);
    Stmt body = over_blocks(block, first, group, step, begun, ended);
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      body = Stmt::loop(LoopKind::Serial, *loop, body);
    return body;
  }

  // A condition that is known, or not.
  struct When {
    When(bool known) : known(known) {}  // NOLINT: either will do
    When(Expr condition) : condition(std::move(condition)) {}  // NOLINT
    Expr condition;
    bool known = true;
    Stmt branch(Stmt when_true, Stmt when_false) const {
      if (!condition.defined()) return known ? when_true : when_false;
      return Stmt::branch(condition, std::move(when_true), std::move(when_false));
    }
  };

  // The blocks of 32 rows of a group; the last block of all is lower.
  Stmt over_blocks(Block block, const Expr& first, std::int64_t group, const Expr& pass, const When& is_first,
                   const When& is_last) {
    const Dim rows = row_count();
    const Dim full = floor_div(rows, kAcross * kRows), rest = rows - full * (kAcross * kRows);
    VarId turn = lowering_.loop("t", group);
    Expr number = first + Expr::variable(turn);
    block.number = passes_ > 1 ? Expr::variable(turn) : Expr::index(0);
    block.turn = Expr::variable(turn);
    block.sharing = rows.is_constant()
                        ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(group)))
                        : kFetching;
    block.sharing = std::min(block.sharing, kPairs);
    auto tiles = [&](const std::vector<RowTile>& along) {
      return one_block(block, along, pass, is_first, is_last);
    };
    Expr base = number * Expr::index(kAcross * kRows);
    Stmt whole = tiles({{base, {}, {}}, {base + Expr::index(kRows), {}, {}}});
    Stmt last = rest.is(0) ? Stmt() : low_block(full, rest, tiles);
    Stmt body;
    if (full.is(0)) {
      body = last;
    } else if (rest.is(0) && full.is_constant() && full.constant() % group == 0) {
      body = whole;
    } else {
      if (last.defined()) last = Stmt::branch(equal(number, Expr::size(full)), std::move(last));
      body = Stmt::branch(number < Expr::size(full), std::move(whole), std::move(last));
    }
    return Stmt::loop(LoopKind::Serial, turn, std::move(body));
  }

  Stmt low_block(const Dim& full, const Dim& rest,
                 const std::function<Stmt(const std::vector<RowTile>&)>& tiles) const {
    const Dim rows = row_count();
    const Expr base = Expr::size(full * (kAcross * kRows)), second = base + Expr::index(kRows);
    const Expr end = Expr::size(rows), shifted = Expr::size(rows - kRows);
    auto both = [&] { return tiles({{base, {}, {}}, {shifted, second, {}}}); };
    auto one = [&] { return tiles({{shifted, base, {}}}); };
    auto few = [&] { return tiles({{Expr::index(0), {}, end}}); };
    if (rows.is_constant()) {
      if (rest.constant() > kRows) return both();
      return rows.constant() >= kRows ? one() : few();
    }
    const Expr enough = end >= Expr::index(kRows);
    Stmt low = Stmt::branch(enough, one(), Stmt::branch(end > Expr::index(0), few()));
    const Expr two = (Expr::size(rest) > Expr::index(kRows)) & enough;
    Stmt made = Stmt::branch(two, both(), Stmt::branch(Expr::size(rest) > Expr::index(0), std::move(low)));
    return made;
  }

  Operand place(kir::BufferId buffer, std::vector<Expr> index) const {
    return {buffer, std::move(index), {}};
  }
  static Operand number(Expr value) { return {{}, {}, std::move(value)}; }
  static Operand number(std::int64_t value) { return number(Expr::index(value)); }
  Operand sum(std::size_t u, std::int64_t v) const {
    return place(sum_,
                 {Expr::index(static_cast<std::int64_t>(u)), Expr::index(v), Expr::index(0), Expr::index(0)});
  }
  Operand left(std::size_t u) const {
    return place(left_, {Expr::index(static_cast<std::int64_t>(u)), Expr::index(0), Expr::index(0)});
  }
  Operand right(std::int64_t v) const {
    return place(right_, {Expr::index(v), Expr::index(0), Expr::index(0)});
  }
  Operand kept(const Block& block, std::size_t u, std::int64_t v) const {
    return place(
        kept_, {block.number, Expr::index(static_cast<std::int64_t>(u) * kRows), Expr::index(v * kColumns)});
  }

  // Sums of one block, in one pass.
  Stmt one_block(const Block& block, const std::vector<RowTile>& along, const Expr& pass,
                 const When& is_first, const When& is_last) {
    std::vector<Stmt> zeros, again, out;
    for (std::size_t u = 0; u < along.size(); ++u) {
      for (std::int64_t v = 0; v < block.panels; ++v) {
        zeros.push_back(Stmt::call(Intrinsic::TileZero, {sum(u, v)}));
        again.push_back(
            Stmt::call(Intrinsic::TileLoad, {sum(u, v), kept(block, u, v), number(kRows), number(kColumns)}));
        out.push_back(Stmt::call(Intrinsic::TileStore,
                                 {kept(block, u, v), sum(u, v), number(kRows), number(kColumns)}));
      }
    }
    std::vector<Stmt> made;
    made.push_back(is_first.branch(Stmt::block(std::move(zeros)), Stmt::block(std::move(again))));
    made.push_back(products(block, along, pass));
    made.insert(made.end(), out.begin(), out.end());
    std::vector<Stmt> results;
    for (std::size_t u = 0; u < along.size(); ++u) results.push_back(results_of(block, along[u], u));
    Stmt finished = is_last.branch(Stmt::block(std::move(results)), {});
    if (finished.defined()) made.push_back(std::move(finished));
    return Stmt::block(std::move(made));
  }

  Stmt products(const Block& block, const std::vector<RowTile>& along, const Expr& pass) {
    Substitution bound = block.bound;
    std::vector<VarId> loops;
    for (VarId axis : inner_) {
      loops.push_back(lowering_.loop(name(axis), extent(axis)));
      bound[axis.index] = Expr::variable(loops.back());
    }
    std::vector<Stmt> steps;
    if (factor_ > 0) {
      VarId turn = lowering_.loop(name(form_.k), factor_);
      Expr step = Expr::variable(turn);
      if (pass.defined()) step = pass * Expr::index(factor_) + step;
      steps.push_back(Stmt::loop(LoopKind::Serial, turn, one_step(block, bound, along, step, kDepth)));
    }
    if (tail_ > 0) steps.push_back(one_step(block, bound, along, Expr::index(steps_), tail_));
    Stmt body = Stmt::block(std::move(steps));
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      body = Stmt::loop(LoopKind::Serial, *loop, body);
    return body;
  }

  // 32 of k, or those that are left.
  Stmt one_step(const Block& block, Substitution bound, const std::vector<RowTile>& along, const Expr& step,
                std::int64_t depth) {
    bound[form_.k.index] = step * Expr::index(kDepth);
    std::vector<Stmt> made;
    for (std::int64_t v = 0; v < block.panels; ++v) {
      bound[form_.n.index] = block.column + Expr::index(v * kColumns);
      Expr panel = lowering_.body(form_.b, bound).value;
      const auto pairs = static_cast<std::int64_t>(
          pair_dimension(lowering_.kernel().buffer(kir::BufferId(panel->buffer.index)).shape));
      made.push_back(Stmt::call(Intrinsic::TileLoadRows,
                                {right(v), place(kir::BufferId(panel->buffer.index), te::index_of(*panel)),
                                 number(kPairs), number(kDepth), number(pairs), number(1)}));
    }
    if (depth == kDepth) fetch_next(block, bound, made);
    for (std::size_t u = 0; u < along.size(); ++u) {
      // From where the first row lies the others follow, across lines too.
      if (tile_.outer.valid()) bound[tile_.outer.index] = Expr::index(0);
      bound[tile_.axis.index] = along[u].first;
      Expr rows = lowering_.body(form_.a, bound).value;
      Expr count = along[u].rows.defined() ? along[u].rows : Expr::index(kRows);
      made.push_back(Stmt::call(
          Intrinsic::TileLoadRows,
          {left(u), place(kir::BufferId(rows->buffer.index), te::index_of(*rows)), number(count),
           number(depth), number(static_cast<std::int64_t>(tile_.dimension)), number(tile_.step)}));
      for (std::int64_t v = 0; v < block.panels; ++v)
        made.push_back(Stmt::call(Intrinsic::TileMultiplyBf16, {sum(u, v), left(u), right(v)}));
    }
    return Stmt::block(std::move(made));
  }

  // The panels that come next, part of them in each of the first blocks: they come from memory while these are multiplied.
  void fetch_next(const Block& block, Substitution bound, std::vector<Stmt>& made) {
    if (!block.fetches) return;
    for (std::int64_t v = 0; v < block.panels; ++v) {
      bound[form_.n.index] = block.column + Expr::index((block.panels + v) * kColumns);
      Expr panel = lowering_.body(form_.b, bound).value;
      for (std::int64_t i = 0; i < kPairs / block.sharing; ++i) {
        std::vector<Expr> index = te::index_of(*panel);
        index[pair_dimension(lowering_.kernel().buffer(kir::BufferId(panel->buffer.index)).shape)] =
            block.turn * Expr::index(kPairs / block.sharing) + Expr::index(i);
        made.push_back(
            Stmt::call(Intrinsic::PrefetchFar, {place(kir::BufferId(panel->buffer.index), index)}));
      }
    }
  }

  // The epilogue: rows of a tile of sums become elements of the result.
  Stmt results_of(const Block& block, const RowTile& tile, std::size_t u) {
    VarId row = lowering_.loop("r", kRows);
    const Expr r = Expr::variable(row);
    std::vector<Stmt> panels;
    for (std::int64_t v = 0; v < block.panels; ++v) {
      VarId lane = lowering_.loop("l", kColumns);
      const Expr column = block.column + Expr::index(v * kColumns) + Expr::variable(lane);
      Substitution bound = block.bound;
      tile_.bind(bound, tile.first + r);
      bound[form_.n.index] = column;
      Expr value = Expr::load(kept_, DType::F32,
                              {block.number, Expr::index(static_cast<std::int64_t>(u) * kRows) + r,
                               Expr::index(v * kColumns) + Expr::variable(lane)});
      Lowering::Body result{{}, value};
      if (stage_.finish.defined()) result = lowering_.body(stage_.finish, bound, value);
      Stmt store = lowering_.store(stage_, bound, std::move(result));
      if (block.masked) store = Stmt::branch(column < Expr::size(extent(form_.n)), std::move(store));
      panels.push_back(Stmt::loop(LoopKind::Vector, lane, std::move(store)));
    }
    Stmt body = Stmt::block(std::move(panels));
    if (tile_.outer.valid() && !extent(tile_.axis).is(tile_.pitch)) {
      const Expr inside = mod(tile.first + r, Expr::index(tile_.pitch)) < Expr::size(extent(tile_.axis));
      body = Stmt::branch(inside, std::move(body));
    }
    if (tile.from.defined()) body = Stmt::branch(tile.first + r >= tile.from, std::move(body));
    if (tile.rows.defined()) body = Stmt::branch(r < tile.rows, std::move(body));
    return Stmt::loop(LoopKind::Serial, row, std::move(body));
  }

  Lowering& lowering_;
  const Stage& stage_;
  TileForm form_;
  TileRows tile_;
  kir::BufferId sum_, left_, right_, kept_;
  std::vector<VarId> inner_, outer_;
  std::int64_t steps_ = 0, tail_ = 0, factor_ = 0, passes_ = 1;
};

}  // namespace

std::vector<Stmt> lower_tiles(Lowering& lowering, const Stage& stage) {
  auto form = tile_form(lowering.formula(), stage, lowering.nominal());
  if (!form || !is_paired(lowering.formula(), *form)) return {};
  auto rows = tile_rows(lowering, *form);
  if (!rows) return {};
  return TilesLowering(lowering, stage, std::move(*form), *rows).phases();
}

}  // namespace xyntra
