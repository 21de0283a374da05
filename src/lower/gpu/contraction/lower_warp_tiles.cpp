#include "lower/gpu/contraction/lower_warp_tiles.h"

#include <algorithm>

#include "kir/intrinsics.h"
#include "lower/gpu/contraction/product_tiles.h"
#include "schedule/contraction/warp_units.h"

namespace xyntra {

using kir::Intrinsic;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::VarId;

namespace {

class WarpTiles : public ProductTiles {
 public:
  WarpTiles(Lowering& lowering, const te::Stage& stage, ProductSides sides)
      : ProductTiles(lowering, stage, std::move(sides)) {}

 private:
  std::int64_t down() const { return tile_.warp_rows() / kFragmentRows; }
  std::int64_t across() const { return tile_.warp_columns() / kFragmentColumns; }
  std::int64_t deep_of_fragment() const { return fragment_depth(tile_.element_bytes); }
  // Where this thread's warp begins in the tile.
  Expr warp_row() const {
    Expr down = te::floor_div(Expr::variable(thread_), Expr::index(kir::kWarpThreads * tile_.warps_across));
    if (tile_.warps_deep > 1) down = te::mod(down, Expr::index(tile_.warps_down));
    return times(down, tile_.warp_rows());
  }
  // Which part of the depth it has.
  Expr warp_depth() const {
    return te::floor_div(warp(), Expr::index(tile_.warps_across * tile_.warps_down));
  }
  Expr warp_column() const {
    return times(te::mod(warp(), Expr::index(tile_.warps_across)), tile_.warp_columns());
  }

  std::optional<WarpTile> choose() override {
    return choose_warp_tile(lowering_, sides_, left_.copied() && right_.copied());
  }

  void place_operands(const Expr& first_step) override {
    left_.place("l", tile_, tile_.rows, first_row_, first_step, thread_, bound_);
    right_.place("r", tile_, tile_.columns, first_column_, first_step, thread_, bound_);
    sums_ = lowering_.scratch("a", sum_dtype_, {down(), across(), 4}, Scope::Register);
  }

  Stmt zero() override {
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("j", across(), [&](const Expr& j) {
        return unrolled("e", 4, [&](const Expr& e) {
          return Stmt::store(sums_, {i, j, e}, Expr::number(sum_dtype_, 0));
        });
      });
    });
  }

  // ---- the sum: a ring of tiles

  Stmt products() override {
    const Dim& tiles = tiles_;
    const std::int64_t ahead = tile_.stages - 1;
    const bool copies = left_.copied() || right_.copied();
    const Stmt commit = copies ? Stmt::call(Intrinsic::AsyncCommit, {}) : Stmt::block({});
    auto is_there = [&](std::int64_t step) { return !tiles.is_constant() || tiles.constant() > step; };
    auto where_it_is = [&](const Expr& step, Stmt what) {
      return tiles.is_constant() || !what.defined() ? what : Stmt::branch(step < Expr::size(tiles), what);
    };
    std::vector<Stmt> before;
    for (std::int64_t step = 0; step < tile_.early && is_there(step); ++step)
      before.push_back(where_it_is(Expr::index(step), right_.issue(Expr::index(step))));
    for (std::int64_t step = 0; step < ahead; ++step) {
      const Expr at = Expr::index(step);
      if (is_there(step))
        before.push_back(where_it_is(at, step < tile_.early ? left_.issue(at) : both(at, true, true)));
      before.push_back(commit);
    }
    if (!std::ranges::all_of(before, &Stmt::defined)) return {};
    const VarId turn = lowering_.loop("k", tiles);
    const Expr step = Expr::variable(turn), next = step + Expr::index(ahead);
    std::vector<Stmt> body;
    if (copies) body.push_back(Stmt::call(Intrinsic::AsyncWait, {{{}, {}, Expr::index(tile_.stages - 2)}}));
    body.push_back(Stmt::call(Intrinsic::Barrier, {}));
    auto where_there = [&](Stmt what) { return Stmt::branch(next < Expr::size(tiles), std::move(what)); };
    const bool more = !tiles.is_constant() || tiles.constant() > ahead;
    // Copies begin when the first fragments are on their way to the units: both go through shared memory.
    const Expr slot = te::mod(step, Expr::index(tile_.stages));
    const std::int64_t fragments = tile_.depth / tile_.warps_deep / deep_of_fragment();
    body.push_back(multiply(slot, 0, 1));
    if (more) {
      Stmt brought = both(next, true, false);
      if (!brought.defined()) return {};
      body.push_back(where_there(brought));
    }
    body.push_back(commit);
    if (fragments > 1) body.push_back(multiply(slot, 1, fragments));
    if (more && !(left_.copied() && right_.copied())) body.push_back(where_there(both(next, false, true)));
    before.push_back(Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body))));
    return Stmt::block(std::move(before));
  }

  Intrinsic unit() const {
    const bool right_has_sign = narrow_factor(lowering_, sides_.right).dtype() == DType::I8;
    switch (dtype_) {
      case DType::F32: return Intrinsic::WarpMultiplyTf32;
      case DType::F16: return Intrinsic::WarpMultiplyF16;
      case DType::I8: return right_has_sign ? Intrinsic::WarpMultiplyI8 : Intrinsic::WarpMultiplyI8U8;
      case DType::U8: return right_has_sign ? Intrinsic::WarpMultiplyU8I8 : Intrinsic::WarpMultiplyU8;
      default: return Intrinsic::WarpMultiplyBf16;
    }
  }

  // Fragments of the sum from one on to another.
  Stmt multiply(const Expr& slot, std::int64_t from, std::int64_t to) {
    const kir::BufferId a = lowering_.scratch("fa", DType::U32, {down(), 4}, Scope::Register);
    const kir::BufferId b = lowering_.scratch("fb", DType::U32, {across() / 2, 4}, Scope::Register);
    const Intrinsic unit = this->unit();
    const Expr first = Expr::index(0);
    return unrolled("s", to - from, [&](const Expr& s) {
      const Expr deep =
          tile_.warps_deep == 1
              ? times(s, deep_of_fragment()) + Expr::index(from * deep_of_fragment())
              : times(times(s + Expr::index(from), tile_.warps_deep) + warp_depth(), deep_of_fragment());
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

  Stmt results() override {
    if (tile_.warps_deep > 1) return results_of_several();
    return for_pairs(
        first_row_ + warp_row(), first_column_ + warp_column(),
        [&](const Expr& row, const Expr& column, const Sum& sum) { return pair(row, column, sum); },
        [&](const Expr& row, const Stmt& pairs) { return of_row(row, pairs); });
  }

  // Pairs of neighbours that a thread has, by where they are; `around` those of a row.
  using Sum = std::function<Expr(const Expr& which)>;
  template <class What, class Around>
  Stmt for_pairs(const Expr& first_row, const Expr& first_column, What what, Around around) {
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("h", 2, [&](const Expr& half) {
        const Expr row =
            first_row + times(i, kFragmentRows) + times(half, 8) + te::floor_div(lane(), Expr::index(4));
        Stmt pairs = unrolled("j", across(), [&](const Expr& j) {
          const Expr column =
              first_column + times(j, kFragmentColumns) + times(te::mod(lane(), Expr::index(4)), 2);
          return what(row, column, [&](const Expr& which) {
            return Expr::load(sums_, sum_dtype_, {i, j, times(half, 2) + which});
          });
        });
        return around(row, pairs);
      });
    });
  }

  // Warps that share out the depth lay down their sums; threads share out the results, and add up those of all warps in their order.
  Stmt results_of_several() {
    const kir::BufferId all = lowering_.scratch(
        "p", sum_dtype_, {tile_.warps_deep, tile_.rows, tile_.columns + kSumPadding}, Scope::Shared);
    Stmt lay_down = for_pairs(
        warp_row(), warp_column(),
        [&](const Expr& row, const Expr& column, const Sum& sum) {
          const VarId lane_of_pair = lowering_.loop("v", 2);
          const Expr which = Expr::variable(lane_of_pair);
          return Stmt::loop(LoopKind::Vector, lane_of_pair,
                            Stmt::store(all, {warp_depth(), row, column + which}, sum(which)));
        },
        [](const Expr&, const Stmt& pairs) { return pairs; });
    const std::int64_t in_row = tile_.columns / 2, pairs = tile_.rows * in_row, threads = tile_.threads();
    Stmt add_up = unrolled("e", std::max<std::int64_t>(1, pairs / threads), [&](const Expr& e) {
      const Expr place = times(e, threads) + Expr::variable(thread_);
      const Expr row = te::floor_div(place, Expr::index(in_row)),
                 column = times(te::mod(place, Expr::index(in_row)), 2);
      Stmt both = pair(first_row_ + row, first_column_ + column, [&](const Expr& which) {
        Expr sum;
        for (std::int64_t deep = 0; deep < tile_.warps_deep; ++deep) {
          const Expr one = Expr::load(all, sum_dtype_, {Expr::index(deep), row, column + which});
          sum = sum.defined() ? sum + one : one;
        }
        return sum;
      });
      both = of_row(first_row_ + row, both);
      return pairs < threads ? Stmt::branch(Expr::variable(thread_) < Expr::index(pairs), both) : both;
    });
    if (!add_up.defined()) return {};
    return Stmt::block({lay_down, Stmt::call(Intrinsic::Barrier, {}), add_up});
  }
};

}  // namespace

bool has_warp_tiles(const Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  if (lowering.target().warp_threads == 0) return false;
  const auto sides = sides_for_units(lowering, stage);
  if (!sides) return false;
  const bool tf32 = schedule.kind == ScheduleKind::Tf32;
  const bool may_reorder = schedule.exactness != Exactness::Exact ||
                           stage.body.dtype() == DType::I32;  // sums of integers are the same in any order
  return may_reorder && has_warp_unit(lowering, *sides, tf32) && is_worth_tiles(lowering, *sides);
}

std::optional<ProductSides> sides_of_tiles(const Lowering& lowering, const te::Stage& stage,
                                           const Schedule& schedule) {
  if (!has_warp_tiles(lowering, stage, schedule)) return std::nullopt;
  ProductSides sides = *sides_for_units(lowering, stage);
  order_depth(lowering, sides);
  return has_constant_digits(lowering, sides.depth) ? std::optional(std::move(sides)) : std::nullopt;
}

bool has_copied_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  const auto sides = sides_of_tiles(lowering, stage, schedule);
  if (!sides) return false;
  auto copied = [&](const Expr& factor, const Side& side) {
    return WarpOperand(lowering, narrow_factor(lowering, factor), side, sides->depth).copied();
  };
  return copied(sides->left, sides->rows) && copied(sides->right, sides->columns);
}

Stmt lower_warp_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  auto sides = sides_of_tiles(lowering, stage, schedule);
  if (!sides) return {};
  return lowering.shown_to_be_inside(WarpTiles(lowering, stage, *std::move(sides)).kernel());
}

}  // namespace xyntra
