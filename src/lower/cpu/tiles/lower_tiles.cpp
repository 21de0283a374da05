#include "lower/cpu/tiles/lower_tiles.h"

#include <algorithm>
#include <bit>

#include "lower/cpu/cpu_forms.h"
#include "lower/nested_loops.h"
#include "schedule/contraction/float_parts.h"
#include "schedule/prepare/prepare_tiles.h"

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

constexpr std::int64_t kRows = kTileRows, kColumns = kTileColumns, kPairs = kTilePairs;
constexpr std::int64_t kAcross = 2;  // tiles of one step, either way
constexpr std::int64_t kFetching = 4;  // blocks, where their number is not known
constexpr std::int64_t kItemRows = 256;  // of one work item at most, unless a plan says otherwise
constexpr std::int64_t kSlots = 2;  // sums of one block are made while those of the one before are finished
constexpr std::int64_t kBlockRows = kAcross * kRows;
constexpr std::int64_t kTileBytes = 1024;
constexpr std::int64_t kSumPastCaches =
    512;  // memory takes two lines of results meanwhile, and is not waited for
// Steps of products of parts, each of which adds to a sum six times: the error grows with that.
constexpr std::int64_t kLongestPiece = 12;
constexpr std::int64_t kWrittenOut = 4;  // rows of results between two steps; more of them are a loop

// ---- the products

class TilesLowering {
 public:
  TilesLowering(Lowering& lowering, const Stage& stage, TileForm form, TileRows rows, const PartLoops& parts)
      : lowering_(lowering),
        stage_(stage),
        form_(std::move(form)),
        tile_(rows),
        parts_(parts),
        depth_(form_.depth()) {
    if (in_parts())
      std::erase_if(form_.deeper, [&](VarId loop) { return loop == parts.left || loop == parts.right; });
    TileRegisters own;
    TileRegisters& tiles = parts.registers != nullptr ? *parts.registers : own;
    if (!tiles.sum.valid()) {
      auto registers = [&](const char* name, DType dtype, const Shape& shape) {
        return lowering_.scratch(name, dtype, shape, Scope::Register);
      };
      tiles.sum = registers("sum", form_.sum(), {kAcross, kAcross, kRows, kColumns});
      tiles.left = registers("left", form_.a.dtype(), {kAcross, kRows, depth_});
      tiles.right = registers("right", form_.b.dtype(), {kAcross, kPairs, depth_});
    }
    sum_ = tiles.sum;
    left_ = tiles.left;
    right_ = tiles.right;
    const std::int64_t k = extent(form_.k).constant();
    steps_ = k / depth_;
    tail_ = k % depth_;
    if (in_parts()) pieces_ = (steps_ + kLongestPiece - 1) / kLongestPiece;
    if (lowering_.leaves(stage_.target) && sum_length() >= kSumPastCaches)
      past_caches_ = lowering_.outgrows(stage_.target, lowering_.target().l2_bytes);
    stored_together_ =
        lowering_.contiguous_in_blocks(stage_.target, stage_.store, form_.n, kAcross * kColumns);
  }

  std::vector<Stmt> phases() {
    std::vector<Stmt> made;
    group_ = lowering_.forms().knob("item_rows", kItemRows) / kBlockRows;
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
    Expr slot;  // where its sums are kept
    bool masked = false;  // columns beyond the last one are padding
    Expr turn;  // of the block in its group
    std::int64_t sharing = 1;  // blocks that fetch the next panels together
    bool fetches = false;
  };

  // What of a step's tiles gets a place in the L1 cache.
  struct Near {
    bool panels = false, rows = false;
  };

  bool in_parts() const { return parts_.left.valid(); }
  std::int64_t part_count() const { return in_parts() ? kFloatParts : 1; }

  std::int64_t sum_length() const {
    std::int64_t length = 1;
    for (VarId loop : stage_.reduction) length *= lowering_.size(extent(loop));
    return length;
  }
  Dim row_count() const { return tile_.count(lowering_.formula()); }
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }
  const std::string& name(VarId loop) const { return lowering_.formula().variable(loop).name; }

  bool panels_outside() const {
    std::int64_t groups = 1;
    for (VarId loop : form_.rows) groups *= lowering_.size(extent(loop));
    const std::int64_t tile = lowering_.size(row_count());
    groups =
        groups / std::max<std::int64_t>(1, tile) * ((tile + group_ * kBlockRows - 1) / (group_ * kBlockRows));
    return panels_are_outside(lowering_, stage_, form_, kAcross * kColumns, groups);
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
    std::int64_t group = group_;
    if (blocks.is_constant()) group = even_part(blocks.constant());
    Expr first = over(tile_.axis, ceil_div(blocks, group)) * Expr::index(group);
    if (!outside) columns();
    block.bound = std::move(bound);
    kept_ = lowering_.scratch("c", form_.sum(), {kSlots * pieces_, kBlockRows, kAcross * kColumns},
                              Scope::Shared);
    Stmt body = Lowering::where_any(rows, over_blocks(block, first, group));
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    return in_loops(LoopKind::Grid, grid, std::move(body));
  }

  // Groups of nearly one size.
  std::int64_t even_part(std::int64_t blocks) const {
    const std::int64_t groups = (blocks + group_ - 1) / group_;
    return (blocks + groups - 1) / std::max<std::int64_t>(1, groups);
  }

  // The blocks of 32 rows of a group; the last block of all is lower. A tile unit works by itself: while it multiplies,
  // the vector units make results of the sums of the block before.
  //
  //   products of block 0;  for t { products of block t + 1, between its steps the results of block t };  the last results
  Stmt over_blocks(Block block, const Expr& first, std::int64_t group) {
    const Dim rows = row_count();
    const Dim full = floor_div(rows, kBlockRows), rest = rows - full * kBlockRows;
    block.sharing = rows.is_constant()
                        ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(group)))
                        : kFetching;
    block.sharing = std::min(block.sharing, kPairs);
    auto at = [&](const Expr& number) { return number * Expr::index(kBlockRows); };
    auto whole = [&](const Expr& turn, const Block* before, const Expr& finished) {
      Block one = block;
      one.turn = turn;
      one.slot = mod(turn, Expr::index(kSlots));
      const Expr base = at(first + turn);
      return sums_of(one, {{base, {}, {}}, {base + Expr::index(kRows), {}, {}}}, before, finished);
    };
    auto before_of = [&](const Expr& turn) {
      Block one = block;
      one.slot = mod(turn, Expr::index(kSlots));
      return one;
    };
    auto low = [&](const Expr& turn) {
      Block one = block;
      one.turn = turn;
      one.slot = Expr::index(0);
      return low_block(full, rest, [&](const std::vector<RowTile>& along) {
        std::vector<Stmt> made{sums_of(one, along, nullptr, {})};
        for (std::size_t u = 0; u < along.size(); ++u) made.push_back(results_of(one, along[u], u));
        return Stmt::block(std::move(made));
      });
    };
    if (full.is(0)) return low(Expr::index(0));
    const bool even = rest.is(0) && full.is_constant() && full.constant() % group == 0;
    std::vector<Stmt> made;
    const Expr none = Expr::index(0);
    Stmt begin = whole(none, nullptr, {});
    if (!even) {
      Stmt instead = rest.is(0) ? Stmt() : Stmt::branch(equal(first, Expr::size(full)), low(none));
      begin = Stmt::branch(first < Expr::size(full), std::move(begin), std::move(instead));
    }
    made.push_back(std::move(begin));
    auto turns = [&](std::int64_t count, const std::function<Stmt(const Expr&)>& body) {
      if (count == 0) return;
      VarId turn = lowering_.loop("t", count);
      made.push_back(Stmt::loop(LoopKind::Serial, turn, body(Expr::variable(turn))));
    };
    turns(even ? group - 1 : group, [&](const Expr& t) {
      const Block before = before_of(t);
      const Expr next = t + Expr::index(1), number = first + next;
      auto both = [&] { return whole(next, &before, at(first + t)); };
      if (even) return both();
      Stmt drained = Stmt::branch(first + t < Expr::size(full), all_results(before, at(first + t)));
      if (!rest.is(0) && group > 1) {
        Expr is_low = equal(number, Expr::size(full));
        is_low = is_low & (next < Expr::index(group));
        drained = Stmt::block({std::move(drained), Stmt::branch(std::move(is_low), low(next))});
      }
      if (group == 1) return drained;
      const Expr is_whole = (next < Expr::index(group)) & (number < Expr::size(full));
      return Stmt::branch(is_whole, both(), std::move(drained));
    });
    if (even) {
      const Expr last = Expr::index(group - 1);
      made.push_back(all_results(before_of(last), at(first + last)));
    }
    return Stmt::block(std::move(made));
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
  // Where piece `piece` of a block's sums is kept.
  Expr slot_of(const Block& block, std::int64_t piece) const {
    return pieces_ == 1 ? block.slot : block.slot * Expr::index(pieces_) + Expr::index(piece);
  }
  Operand kept(const Block& block, std::int64_t piece, std::size_t u, std::int64_t v) const {
    return place(kept_, {slot_of(block, piece), Expr::index(static_cast<std::int64_t>(u) * kRows),
                         Expr::index(v * kColumns)});
  }

  // Sums of one block; between the steps the results of the block before, whose first row is `finished`.
  Stmt sums_of(const Block& block, const std::vector<RowTile>& along, const Block* before,
               const Expr& finished) {
    std::vector<Stmt> made;
    clear(block, along, made);
    made.push_back(products(block, along, before, finished));
    keep(block, along, pieces_ - 1, made);
    return Stmt::block(std::move(made));
  }

  void clear(const Block& block, const std::vector<RowTile>& along, std::vector<Stmt>& made) const {
    for (std::size_t u = 0; u < along.size(); ++u) {
      for (std::int64_t v = 0; v < block.panels; ++v)
        made.push_back(Stmt::call(Intrinsic::TileZero, {sum(u, v)}));
    }
  }

  void keep(const Block& block, const std::vector<RowTile>& along, std::int64_t piece,
            std::vector<Stmt>& made) const {
    for (std::size_t u = 0; u < along.size(); ++u) {
      for (std::int64_t v = 0; v < block.panels; ++v) {
        // As many rows as there are, where that is known: tiles of no others are made that high.
        const bool few = along[u].rows.defined() && along[u].rows.is_constant();
        made.push_back(Stmt::call(Intrinsic::TileStore,
                                  {kept(block, piece, u, v), sum(u, v),
                                   few ? number(along[u].rows) : number(kRows), number(kColumns)}));
      }
    }
  }

  Stmt products(const Block& block, const std::vector<RowTile>& along, const Block* before,
                const Expr& finished) {
    Substitution bound = block.bound;
    std::vector<VarId> loops;
    const std::int64_t in_line = steps_ + (tail_ > 0 ? 1 : 0);
    Expr window = Expr::index(0);
    std::int64_t windows = 1;
    bool counted = true;
    for (VarId axis : form_.deeper) {
      loops.push_back(lowering_.loop(name(axis), extent(axis)));
      bound[axis.index] = Expr::variable(loops.back());
      counted = counted && extent(axis).is_constant();
      if (!counted) continue;
      window = window * Expr::index(extent(axis).constant()) + Expr::variable(loops.back());
      windows *= extent(axis).constant();
    }
    auto with_results = [&](Stmt step, const Expr& number) {
      if (before == nullptr || !counted) return step;
      const Expr one = window * Expr::index(in_line) + number;
      return Stmt::block({std::move(step), part_of_results(*before, finished, one, windows * in_line)});
    };
    std::vector<Stmt> steps;
    auto part = [&](std::int64_t first, std::int64_t count, const Near& near) {
      if (count == 0) return;
      VarId turn = lowering_.loop(name(form_.k), count);
      const Expr step = first == 0 ? Expr::variable(turn) : Expr::variable(turn) + Expr::index(first);
      Stmt body = with_results(one_step(block, bound, along, step, depth_, near), step);
      steps.push_back(Stmt::loop(LoopKind::Serial, turn, std::move(body)));
    };
    const bool windowed = windows > 1 || !counted, rows = windowed || !rows_pass_by();
    const std::int64_t room = steps_in_cache();
    std::int64_t kept = std::min(steps_, room);
    if (windowed && !(counted && windows * in_line <= room)) kept = 0;
    for (std::int64_t piece = 0; piece < pieces_; ++piece) {
      const std::int64_t first = piece * steps_ / pieces_, end = (piece + 1) * steps_ / pieces_;
      const std::int64_t near = std::clamp(kept, first, end);
      part(first, near - first, {true, rows});
      part(near, end - near, {false, rows});
      if (piece + 1 == pieces_) break;
      keep(block, along, piece, steps);
      clear(block, along, steps);
    }
    const Expr last = Expr::index(steps_);
    if (tail_ > 0)
      steps.push_back(with_results(one_step(block, bound, along, last, tail_, {kept > 0, rows}), last));
    Stmt body = Stmt::block(std::move(steps));
    body = in_loops(LoopKind::Serial, loops, std::move(body));
    if (before == nullptr || counted) return body;
    return Stmt::block({std::move(body), all_results(*before, finished)});
  }

  // The rows of results whose turn it is in this one of so many steps.
  Stmt part_of_results(const Block& block, const Expr& base, const Expr& step, std::int64_t steps) {
    const std::int64_t share = (kBlockRows + steps - 1) / steps;
    auto one = [&](const Expr& r) {
      const Expr row = share == 1 ? step : step * Expr::index(share) + r;
      Stmt made = row_of_results(block, base + row, row);
      return share * steps == kBlockRows ? made
                                         : Stmt::branch(row < Expr::index(kBlockRows), std::move(made));
    };
    if (share == 1) return one({});
    VarId row = lowering_.loop("r", share);
    const auto kind = share <= kWrittenOut ? LoopKind::Unrolled : LoopKind::Serial;
    return Stmt::loop(kind, row, one(Expr::variable(row)));
  }
  Stmt all_results(const Block& block, const Expr& base) {
    return part_of_results(block, base, Expr::index(0), 1);
  }

  // A panel is read again for the next block of rows. As many of its first steps stay in the L1 cache meanwhile as fill
  // two thirds of it; if the others came in, too, each would be gone before its turn.
  std::int64_t steps_in_cache() const {
    return lowering_.target().l1_bytes / 3 * 2 / (kAcross * kTileBytes * part_count());
  }
  // Rows are read again a panel later, when all the others have passed. So they stay outside, and leave the cache to panels and to
  // sums on their way to results. Not so rows that lie apart: with a piece of one, the cache brings the next piece of it along.
  bool rows_pass_by() const {
    const Shape& shape = lowering_.formula().buffer(form_.a->buffer).shape;
    Dim apart = tile_.step;
    for (std::size_t d = tile_.dimension + 1; d < shape.size(); ++d) apart = apart * shape[d];
    const bool all_stay = 2 * steps_ <= steps_in_cache();
    return apart.is(depth_) && !all_stay;
  }

  // 32 of k (64 bytes), or those that are left.
  Stmt one_step(const Block& block, Substitution bound, const std::vector<RowTile>& along, const Expr& step,
                std::int64_t depth, const Near& near) {
    bound[form_.k.index] = step * Expr::index(depth_);
    std::vector<Stmt> made;
    if (!in_parts()) {
      load_panels(block, bound, near, made);
      if (depth == depth_) fetch_next(block, bound, made);
      multiply(block, bound, along, depth, near, true, made);
      return Stmt::block(std::move(made));
    }
    PartProduct before{-1, -1};
    for (const PartProduct& product : kPartProducts) {
      bound[parts_.left.index] = Expr::index(product.left);
      bound[parts_.right.index] = Expr::index(product.right);
      if (product.right != before.right) {
        load_panels(block, bound, near, made);
        fetch_next(block, bound, made);
      }
      multiply(block, bound, along, depth, near, product.left != before.left, made);
      before = product;
    }
    return Stmt::block(std::move(made));
  }

  void load_panels(const Block& block, Substitution bound, const Near& near, std::vector<Stmt>& made) {
    for (std::int64_t v = 0; v < block.panels; ++v) {
      bound[form_.n.index] = block.column + Expr::index(v * kColumns);
      Expr panel = lowering_.body(form_.b, bound).value;
      const auto pairs = static_cast<std::int64_t>(
          pair_dimension(lowering_.kernel().buffer(kir::BufferId(panel->buffer.index)).shape));
      made.push_back(Stmt::call(near.panels ? Intrinsic::TileLoadRows : Intrinsic::TileLoadRowsL2,
                                {right(v), place(kir::BufferId(panel->buffer.index), te::index_of(*panel)),
                                 number(pairs_loaded()), number(depth_), number(pairs), number(1)}));
    }
  }

  // Tiles of rows with the panels that are loaded; the tiles are, too, where `load` is false.
  void multiply(const Block& block, Substitution bound, const std::vector<RowTile>& along, std::int64_t depth,
                const Near& near, bool load, std::vector<Stmt>& made) {
    const auto multiply = form_.sum() == DType::I32 ? Intrinsic::TileMultiplyI8 : Intrinsic::TileMultiplyBf16;
    for (std::size_t u = 0; u < along.size(); ++u) {
      // From where the first row lies the others follow, across lines too.
      if (tile_.outer.valid()) bound[tile_.outer.index] = Expr::index(0);
      if (tile_.axis.valid()) bound[tile_.axis.index] = along[u].first;
      Expr rows = lowering_.body(form_.a, bound).value;
      Expr count = along[u].rows.defined() ? along[u].rows : Expr::index(kRows);
      if (load) {
        made.push_back(Stmt::call(
            near.rows ? Intrinsic::TileLoadRows : Intrinsic::TileLoadRowsL2,
            {left(u), place(kir::BufferId(rows->buffer.index), te::index_of(*rows)), number(count),
             number(depth), number(static_cast<std::int64_t>(tile_.dimension)), number(tile_.step)}));
      }
      for (std::int64_t v = 0; v < block.panels; ++v)
        made.push_back(Stmt::call(multiply, {sum(u, v), left(u), right(v)}));
    }
  }

  // Where no step is whole, tiles are as small as the sum is short.
  std::int64_t pairs_loaded() const {
    const std::int64_t group = depth_ / kPairs;
    return steps_ == 0 && tail_ % group == 0 ? tail_ / group : kPairs;
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
        made.push_back(Stmt::call(Intrinsic::PrefetchL2, {place(kir::BufferId(panel->buffer.index), index)}));
      }
    }
  }

  // The epilogue: row `kept` of the sums becomes row m of the result.
  Stmt row_of_results(const Block& block, const Expr& m, const Expr& kept) {
    // Adjacent panels are one vector, where that is in one piece.
    const std::int64_t vectors = block.masked || !stored_together_ ? block.panels : 1,
                       width = block.panels / vectors * kColumns;
    std::vector<Stmt> panels;
    for (std::int64_t v = 0; v < vectors; ++v) {
      VarId lane = lowering_.loop("l", width);
      const Expr within = Expr::index(v * width) + Expr::variable(lane), column = block.column + within;
      Substitution bound = block.bound;
      tile_.bind(bound, m);
      bound[form_.n.index] = column;
      Expr value = Expr::load(kept_, form_.sum(), {slot_of(block, 0), kept, within});
      for (std::int64_t piece = 1; piece < pieces_; ++piece)
        value = value + Expr::load(kept_, form_.sum(), {slot_of(block, piece), kept, within});
      Lowering::Body result{{}, value};
      if (stage_.finish.defined()) result = lowering_.body(stage_.finish, bound, value);
      Stmt store = lowering_.store(stage_, bound, std::move(result), past_caches_);
      if (block.masked) store = Stmt::branch(column < Expr::size(extent(form_.n)), std::move(store));
      panels.push_back(Stmt::loop(LoopKind::Vector, lane, std::move(store)));
    }
    Stmt body = Stmt::block(std::move(panels));
    if (!tile_.outer.valid() || extent(tile_.axis).is(tile_.pitch)) return body;
    return Stmt::branch(mod(m, Expr::index(tile_.pitch)) < Expr::size(extent(tile_.axis)), std::move(body));
  }

  // Of a tile that may hold rows that others finished, or fewer than 16.
  Stmt results_of(const Block& block, const RowTile& tile, std::size_t u) {
    VarId row = lowering_.loop("r", kRows);
    const Expr r = Expr::variable(row);
    Stmt body = row_of_results(block, tile.first + r, Expr::index(static_cast<std::int64_t>(u) * kRows) + r);
    if (tile.from.defined()) body = Stmt::branch(tile.first + r >= tile.from, std::move(body));
    if (tile.rows.defined()) body = Stmt::branch(r < tile.rows, std::move(body));
    return Stmt::loop(LoopKind::Serial, row, std::move(body));
  }

  Lowering& lowering_;
  const Stage& stage_;
  TileForm form_;
  TileRows tile_;
  PartLoops parts_;
  kir::BufferId sum_, left_, right_, kept_;
  bool stored_together_ = false;  // results of two panels
  Expr past_caches_;  // when results go there
  std::int64_t depth_ = kTileDepth;  // of a step along k
  std::int64_t group_ = 1;  // blocks of 32 rows of one work item, at most
  std::int64_t pieces_ = 1;  // of sums that are kept apart until they are results
  std::int64_t steps_ = 0, tail_ = 0;  // along k: whole ones, and what is left
};

}  // namespace

std::vector<Stmt> lower_tiles(Lowering& lowering, const Stage& stage, const PartLoops& parts) {
  auto form = tile_form(lowering.formula(), stage, lowering.nominal());
  if (!form || !is_paired(lowering.formula(), *form)) return {};
  if (product_unit(lowering.target(), form->a.dtype()) != ProductUnit::Tiles) return {};
  auto rows = tile_rows(lowering, *form);
  if (!rows) return {};
  return TilesLowering(lowering, stage, std::move(*form), *rows, parts).phases();
}

std::vector<Stmt> lower_matrix_tiles(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  return schedule.kind == ScheduleKind::Tiles ? lower_tiles(lowering, stage) : std::vector<Stmt>();
}

}  // namespace xyntra
