#include "lower/gpu/contraction/lower_warp_tiles.h"

#include <algorithm>

#include "kir/intrinsics.h"
#include "lower/gpu/contraction/product_tiles.h"

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
  // Where this thread's warp begins in the tile.
  Expr warp_row() const {
    return times(te::floor_div(Expr::variable(thread_), Expr::index(kir::kWarpThreads * tile_.warps_across)),
                 tile_.warp_rows());
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
    sums_ = lowering_.scratch("a", DType::F32, {down(), across(), 4}, Scope::Register);
  }

  Stmt zero() override {
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("j", across(), [&](const Expr& j) {
        return unrolled("e", 4, [&](const Expr& e) {
          return Stmt::store(sums_, {i, j, e}, Expr::number(DType::F32, 0));
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

  Stmt results() override {
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("h", 2, [&](const Expr& half) {
        const Expr row = first_row_ + warp_row() + times(i, kFragmentRows) + times(half, 8) +
                         te::floor_div(lane(), Expr::index(4));
        Stmt pairs = unrolled("j", across(), [&](const Expr& j) {
          const Expr first = first_column_ + warp_column() + times(j, kFragmentColumns) +
                             times(te::mod(lane(), Expr::index(4)), 2);
          return pair(row, first, [&](const Expr& which) {
            return Expr::load(sums_, DType::F32, {i, j, times(half, 2) + which});
          });
        });
        return of_row(row, pairs);
      });
    });
  }
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

std::optional<ProductSides> sides_of_tiles(const Lowering& lowering, const te::Stage& stage,
                                           const Schedule& schedule) {
  if (!has_warp_tiles(lowering, stage, schedule)) return std::nullopt;
  ProductSides sides = *product_sides(lowering, stage);
  order_depth(lowering, sides);
  return has_constant_digits(lowering, sides.depth) ? std::optional(std::move(sides)) : std::nullopt;
}

Stmt lower_warp_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  auto sides = sides_of_tiles(lowering, stage, schedule);
  if (!sides) return {};
  return lowering.shown_to_be_inside(WarpTiles(lowering, stage, *std::move(sides)).kernel());
}

}  // namespace xyntra
