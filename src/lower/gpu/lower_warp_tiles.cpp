#include "lower/gpu/lower_warp_tiles.h"

#include <algorithm>

#include "kir/intrinsics.h"
#include "lower/gpu/warp_tile.h"
#include "lower/nested_loops.h"

namespace xyntra {

using kir::Intrinsic;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

class WarpTiles {
 public:
  WarpTiles(Lowering& lowering, const te::Stage& stage, ProductSides sides)
      : lowering_(lowering),
        stage_(stage),
        sides_(std::move(sides)),
        dtype_(narrow_factor(lowering, sides_.left).dtype()),
        left_(lowering, narrow_factor(lowering, sides_.left), sides_.rows, sides_.depth),
        right_(lowering, narrow_factor(lowering, sides_.right), sides_.columns, sides_.depth) {}

  Stmt kernel() {
    const auto tile = choose_warp_tile(lowering_, sides_, left_.copied() && right_.copied());
    if (!tile) return {};
    tile_ = *tile;
    std::vector<VarId> grid;
    const Dim tiles = ceil_div(sides_.depth.extent, tile_.depth);
    tiles_ = tile_.splits == 1 ? tiles : floor_div(tiles, Dim(tile_.splits));
    Expr first_step;
    if (tile_.splits > 1) {
      grid.push_back(lowering_.loop("part", tile_.splits));
      part_ = Expr::variable(grid.back());
      first_step = part_ * Expr::size(tiles_);
      place_parts();
    }
    for (VarId axis : sides_.batch) {
      const te::Variable& variable = lowering_.formula().variable(axis);
      grid.push_back(lowering_.loop(variable.name, variable.extent));
      bound_[axis.index] = Expr::variable(grid.back());
    }
    for (VarId axis : sides_.ones) bound_[axis.index] = Expr::index(0);
    const Dim block_rows = ceil_div(sides_.rows.extent, tile_.rows);
    const VarId block_row = lowering_.loop("m", floor_div(block_rows, Dim(tile_.group_rows)));
    const VarId block_column = lowering_.loop("n", ceil_div(sides_.columns.extent, tile_.columns));
    grid.insert(grid.end(), {block_row, block_column});
    Expr row_of_tiles = Expr::variable(block_row);
    if (tile_.group_rows > 1) {
      grid.push_back(lowering_.loop("g", tile_.group_rows));
      row_of_tiles = times(row_of_tiles, tile_.group_rows) + Expr::variable(grid.back());
    }
    thread_ = lowering_.loop("x", tile_.threads());
    first_row_ = times(row_of_tiles, tile_.rows);
    first_column_ = times(Expr::variable(block_column), tile_.columns);
    left_.place("l", tile_, tile_.rows, first_row_, first_step, thread_, bound_);
    right_.place("r", tile_, tile_.columns, first_column_, first_step, thread_, bound_);
    sums_ = lowering_.scratch("a", DType::F32, {down(), across(), 4}, Scope::Register);
    Stmt all = products(), finish = results();
    if (!all.defined() || !finish.defined()) return {};
    Stmt item = Stmt::loop(LoopKind::Thread, thread_, Stmt::block({zero(), all, finish}));
    Stmt sums = in_loops(LoopKind::Grid, grid, std::move(item));
    return tile_.splits == 1 ? sums : Stmt::block({sums, added_up()});
  }

 private:
  std::int64_t down() const { return tile_.warp_rows() / kFragmentRows; }
  std::int64_t across() const { return tile_.warp_columns() / kFragmentColumns; }
  Expr lane() const { return te::mod(Expr::variable(thread_), Expr::index(kir::kWarpThreads)); }
  // Where this thread's warp begins in the tile.
  Expr warp_row() const {
    return times(te::floor_div(Expr::variable(thread_), Expr::index(kir::kWarpThreads * tile_.warps_across)),
                 tile_.warp_rows());
  }
  Expr warp_column() const {
    const Expr warp = te::floor_div(Expr::variable(thread_), Expr::index(kir::kWarpThreads));
    return times(te::mod(warp, Expr::index(tile_.warps_across)), tile_.warp_columns());
  }

  template <class Body>
  Stmt unrolled(const char* name, std::int64_t extent, Body body) {
    const VarId var = lowering_.loop(name, extent);
    Stmt inner = body(Expr::variable(var));
    return inner.defined() ? Stmt::loop(LoopKind::Unrolled, var, inner) : Stmt();
  }

  Stmt zero() {
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("j", across(), [&](const Expr& j) {
        return unrolled("e", 4, [&](const Expr& e) {
          return Stmt::store(sums_, {i, j, e}, Expr::number(DType::F32, 0));
        });
      });
    });
  }

  // ---- the sum: a ring of tiles

  Stmt products() {
    const Dim& tiles = tiles_;
    const std::int64_t ahead = tile_.stages - 1;
    const bool copies = left_.copied() || right_.copied();
    const Stmt commit = copies ? Stmt::call(Intrinsic::AsyncCommit, {}) : Stmt::block({});
    std::vector<Stmt> before;
    for (std::int64_t step = 0; step < ahead; ++step) {
      if (tiles.is_constant() && tiles.constant() <= step) {
        before.push_back(commit);
        continue;
      }
      const Expr at = Expr::index(step);
      Stmt brought = both(at, true, true);
      if (!brought.defined()) return {};
      if (!tiles.is_constant()) brought = Stmt::branch(at < Expr::size(tiles), brought);
      before.insert(before.end(), {brought, commit});
    }
    const VarId turn = lowering_.loop("k", tiles);
    const Expr step = Expr::variable(turn), next = step + Expr::index(ahead);
    std::vector<Stmt> body;
    if (copies) body.push_back(Stmt::call(Intrinsic::AsyncWait, {{{}, {}, Expr::index(tile_.stages - 2)}}));
    body.push_back(Stmt::call(Intrinsic::Barrier, {}));
    auto where_there = [&](Stmt what) { return Stmt::branch(next < Expr::size(tiles), std::move(what)); };
    const bool more = !tiles.is_constant() || tiles.constant() > ahead;
    // Copies begin when the first fragments are on their way to the units: both go through shared memory.
    const Expr slot = te::mod(step, Expr::index(tile_.stages));
    const std::int64_t fragments = tile_.depth / kFragmentDepth;
    body.push_back(multiply(slot, 0, 1));
    if (more) {
      Stmt brought = both(next, true, false);
      if (!brought.defined()) return {};
      body.push_back(where_there(brought));
    }
    body.push_back(commit);
    body.push_back(multiply(slot, 1, fragments));
    if (more && !(left_.copied() && right_.copied())) body.push_back(where_there(both(next, false, true)));
    before.push_back(Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body))));
    return Stmt::block(std::move(before));
  }

  Stmt both(const Expr& step, bool issue, bool lay_down) {
    std::vector<Stmt> all;
    for (WarpOperand* one : {&left_, &right_}) {
      if (issue) all.push_back(one->issue(step));
      if (issue && !all.back().defined()) return {};
      if (lay_down) all.push_back(one->lay_down(step));
    }
    return Stmt::block(std::move(all));
  }

  // Fragments of the sum from one on to another.
  Stmt multiply(const Expr& slot, std::int64_t from, std::int64_t to) {
    const kir::BufferId a = lowering_.scratch("fa", DType::U32, {down(), 4}, Scope::Register);
    const kir::BufferId b = lowering_.scratch("fb", DType::U32, {across() / 2, 4}, Scope::Register);
    const Intrinsic unit = dtype_ == DType::F16 ? Intrinsic::WarpMultiplyF16 : Intrinsic::WarpMultiplyBf16;
    const Expr first = Expr::index(0);
    return unrolled("s", to - from, [&](const Expr& s) {
      const Expr deep = times(s, kFragmentDepth) + Expr::index(from * kFragmentDepth);
      Stmt load_a = unrolled("i", down(), [&](const Expr& i) {
        return left_.load({a, {i, first}, {}}, slot, warp_row() + times(i, kFragmentRows), deep, lane(),
                          false);
      });
      Stmt load_b = unrolled("j", across() / 2, [&](const Expr& j) {
        return right_.load({b, {j, first}, {}}, slot, warp_column() + times(j, 2 * kFragmentColumns), deep,
                           lane(), true);
      });
      Stmt products = unrolled("i", down(), [&](const Expr& i) {
        return unrolled("j", across() / 2, [&](const Expr& j) {
          return unrolled("h", 2, [&](const Expr& h) {
            return Stmt::call(
                unit,
                {{sums_, {i, times(j, 2) + h, first}, {}}, {a, {i, first}, {}}, {b, {j, times(h, 2)}, {}}});
          });
        });
      });
      return Stmt::block({load_a, load_b, products});
    });
  }

  // ---- results: two neighbours of a row at a time

  Stmt results() {
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("h", 2, [&](const Expr& half) {
        const Expr row = first_row_ + warp_row() + times(i, kFragmentRows) + times(half, 8) +
                         te::floor_div(lane(), Expr::index(4));
        Stmt pairs = unrolled("j", across(), [&](const Expr& j) { return pair(row, i, half, j); });
        const Expr is_inside = is_row(row);
        return pairs.defined() && is_inside.defined() ? Stmt::branch(is_inside, pairs) : pairs;
      });
    });
  }

  // Said of the outermost loop as well, where rows have several: what is stored is found by its digits.
  Expr is_row(const Expr& row) {
    const Expr whole = inside(row, sides_.rows.extent, tile_.rows);
    if (!whole.defined() || sides_.rows.axes.size() == 1) return whole;
    Substitution digits;
    sides_.rows.bind(lowering_.formula(), row, digits);
    const VarId outermost = sides_.rows.axes.front();
    const Expr digit = te::IndexAlgebra(lowering_.kernel().variables).simplified(digits.at(outermost.index));
    return whole & (digit < Expr::size(lowering_.formula().variable(outermost).extent));
  }

  Stmt pair(const Expr& row, const Expr& i, const Expr& half, const Expr& j) {
    const VarId lane_of_pair = lowering_.loop("v", 2);
    const Expr v = Expr::variable(lane_of_pair);
    const Expr first = first_column_ + warp_column() + times(j, kFragmentColumns) +
                       times(te::mod(lane(), Expr::index(4)), 2);
    const Expr column = first + v;
    Substitution bound = bound_;
    sides_.rows.bind(lowering_.formula(), row, bound);
    sides_.columns.bind(lowering_.formula(), column, bound);
    const Expr sum = Expr::load(sums_, DType::F32, {i, j, times(half, 2) + v});
    Stmt store =
        part_.defined() ? Stmt::store(parts_, place_of_part(part_, row, column), sum) : finished(bound, sum);
    // Where columns are even, both neighbours are inside or neither is; of several loops that is not shown.
    const bool even = te::divides(Dim(2), sides_.columns.extent) && sides_.columns.axes.size() == 1;
    const Expr is_inside =
        inside(even ? first + Expr::index(1) : column, sides_.columns.extent, tile_.columns);
    if (is_inside.defined() && !even) store = Stmt::branch(is_inside, store);
    Stmt both = Stmt::loop(LoopKind::Vector, lane_of_pair, store);
    return is_inside.defined() && even ? Stmt::branch(is_inside, both) : both;
  }

  Stmt finished(const Substitution& bound, const Expr& sum) {
    Lowering::Body value{{}, sum};
    if (stage_.finish.defined()) value = lowering_.body(stage_.finish, bound, sum);
    return lowering_.store(stage_, bound, std::move(value));
  }

  // ---- sums in parts: the first launch leaves them in memory, the second one adds them up in their order

  void place_parts() {
    Shape shape{Dim(tile_.splits)};
    for (VarId axis : sides_.batch) shape.push_back(lowering_.formula().variable(axis).extent);
    shape.insert(shape.end(), {sides_.rows.extent, sides_.columns.extent});
    parts_ = lowering_.scratch("w", DType::F32, std::move(shape), Scope::Workspace);
  }

  std::vector<Expr> place_of_part(const Expr& part, const Expr& row, const Expr& column) const {
    std::vector<Expr> index{part};
    for (VarId axis : sides_.batch) index.push_back(bound_.at(axis.index));
    index.insert(index.end(), {row, column});
    return index;
  }

  Stmt added_up() {
    const std::int64_t lanes = te::divides(Dim(4), sides_.columns.extent) ? 4 : 1;
    std::vector<VarId> grid;
    for (VarId axis : sides_.batch) {
      const te::Variable& variable = lowering_.formula().variable(axis);
      grid.push_back(lowering_.loop(variable.name, variable.extent));
      bound_[axis.index] = Expr::variable(grid.back());
    }
    grid.push_back(lowering_.loop("m", sides_.rows.extent));
    const Expr row = Expr::variable(grid.back());
    grid.push_back(lowering_.loop("n", floor_div(sides_.columns.extent, Dim(lanes))));
    const VarId lane = lowering_.loop("v", lanes);
    const Expr column = times(Expr::variable(grid.back()), lanes) + Expr::variable(lane);
    Expr sum;
    for (std::int64_t part = 0; part < tile_.splits; ++part) {
      const Expr one = Expr::load(parts_, DType::F32, place_of_part(Expr::index(part), row, column));
      sum = sum.defined() ? sum + one : one;
    }
    Substitution bound = bound_;
    sides_.rows.bind(lowering_.formula(), row, bound);
    sides_.columns.bind(lowering_.formula(), column, bound);
    return in_loops(LoopKind::Grid, grid, Stmt::loop(LoopKind::Vector, lane, finished(bound, sum)));
  }

  Lowering& lowering_;
  const te::Stage& stage_;
  const ProductSides sides_;
  const DType dtype_;
  WarpOperand left_, right_;
  WarpTile tile_;
  Substitution bound_;
  VarId thread_;
  Expr first_row_, first_column_;
  kir::BufferId sums_, parts_;
  Dim tiles_;  // of the sum, of a workgroup
  Expr part_;  // of the sum, where there are several
};

// Both factors are of one dtype that a unit of warps multiplies.
bool has_unit(const Lowering& lowering, const ProductSides& sides) {
  const DType dtype = narrow_factor(lowering, sides.left).dtype();
  if (dtype != narrow_factor(lowering, sides.right).dtype() || (dtype != DType::BF16 && dtype != DType::F16))
    return false;
  return lowering.target().matrix_unit(dtype, kFragmentRows, kFragmentColumns, kFragmentDepth) != nullptr;
}

// Whether positions of a side tell its loops: all but the outermost have constant sizes.
bool has_constant_digits(const Lowering& lowering, const Side& side) {
  auto is_constant = [&](VarId axis) { return lowering.formula().variable(axis).extent.is_constant(); };
  return std::all_of(side.axes.begin() + 1, side.axes.end(), is_constant);
}

bool is_worth_tiles(const Lowering& lowering, const ProductSides& sides) {
  constexpr std::int64_t kFewest = 1024, kShortest = 8, kUnknown = 128;
  auto likely = [&](const Dim& extent) {
    return extent.is_constant() ? extent.constant() : std::max(kUnknown, lowering.size(extent));
  };
  return !sides.rows.axes.empty() && !sides.columns.axes.empty() && !sides.depth.axes.empty() &&
         has_constant_digits(lowering, sides.depth) &&
         likely(sides.rows.extent) * likely(sides.columns.extent) >= kFewest &&
         likely(sides.depth.extent) >= kShortest;
}

}  // namespace

bool has_warp_tiles(const Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  if (schedule.exactness == Exactness::Exact || lowering.target().kind != TargetKind::Gpu) return false;
  const auto sides = product_sides(lowering, stage);
  return sides && has_unit(lowering, *sides) && is_worth_tiles(lowering, *sides);
}

Stmt lower_warp_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  if (!has_warp_tiles(lowering, stage, schedule)) return {};
  ProductSides sides = *product_sides(lowering, stage);
  order_depth(lowering, sides);
  if (!has_constant_digits(lowering, sides.depth)) return {};
  Stmt made = WarpTiles(lowering, stage, std::move(sides)).kernel();
  if (!made.defined() || !lowering.forms().chooses()) return made;
  // Another form serves where this one is not shown to stay in bounds.
  kir::Kernel alone = lowering.kernel();
  alone.body = made;
  return kir::verify(alone) ? made : Stmt();
}

}  // namespace xyntra
