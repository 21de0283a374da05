// Form warpgroup_tiles: a GEMM by the matrix units of warpgroups, which read both operands from shared memory by themselves.
#include <array>

#include "lower/gpu/contraction/lower_warp_tiles.h"
#include "lower/gpu/contraction/product_tiles.h"
#include "lower/gpu/gpu_forms.h"

namespace xyntra {

using kir::Intrinsic;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::VarId;

namespace {

// Of a unit: rows that a warpgroup multiplies at a time by as many columns as it has, and how deep a swizzled row is.
constexpr std::int64_t kGroupRows = 64, kMostColumns = 256, kGroupDepth = 64, kUnitDepth = 16,
                       kGroupWarps = 4;
// Sums of a thread: more of them leave no registers for the rest.
constexpr std::int64_t kMostSums = 128;

constexpr WarpTile group_tile(std::int64_t rows, std::int64_t columns, std::int64_t groups_down,
                              std::int64_t groups_across, std::int64_t stages) {
  return {rows, columns, kGroupDepth, kGroupWarps * groups_down, groups_across, stages, 1, 1, true};
}

// The tiles that a plan is made with: each is the fastest for some sizes.
constexpr std::array kGroupTiles{
    group_tile(64, 64, 1, 1, 6),   group_tile(128, 64, 2, 1, 6),  group_tile(64, 128, 1, 1, 4),
    group_tile(128, 128, 2, 1, 3), group_tile(128, 128, 2, 1, 5), group_tile(128, 256, 2, 1, 4),
    group_tile(256, 128, 2, 1, 4),
};
// As much on its way as fits, for few rows.
constexpr std::array kFewRowsTiles{group_tile(64, 64, 1, 1, 6), group_tile(64, 128, 1, 1, 6),
                                   group_tile(64, 128, 1, 1, 4)};

bool is_whole_group_tile(const WarpTile& tile) {
  const std::int64_t groups_down = tile.warps_down / kGroupWarps, columns = tile.warp_columns();
  const std::int64_t sums = tile.rows * tile.columns / tile.threads();
  auto is_shared = [&](std::int64_t lines) {
    return lines * kGroupDepth / kir::kChunkElements % tile.threads() == 0;
  };
  return tile.rows % (groups_down * kGroupRows) == 0 && tile.columns % tile.warps_across == 0 &&
         columns % kGroupDepth == 0 && columns <= kMostColumns && sums <= kMostSums && is_shared(tile.rows) &&
         is_shared(tile.columns);
}

class WarpgroupTiles : public ProductTiles {
 public:
  WarpgroupTiles(Lowering& lowering, const te::Stage& stage, ProductSides sides)
      : ProductTiles(lowering, stage, std::move(sides)) {}

 private:
  std::int64_t down() const { return tile_.rows / groups_down() / kGroupRows; }
  std::int64_t groups_down() const { return tile_.warps_down / kGroupWarps; }
  Expr group() const { return te::floor_div(warp(), Expr::index(kGroupWarps)); }
  // Where this thread's warpgroup begins in the tile.
  Expr group_row() const {
    return times(te::floor_div(group(), Expr::index(tile_.warps_across)), tile_.rows / groups_down());
  }
  Expr group_column() const {
    return times(te::mod(group(), Expr::index(tile_.warps_across)), tile_.warp_columns());
  }

  std::optional<WarpTile> choose() override {
    if (!left_.copied() || !right_.copied() || !left_.along_depth()) return std::nullopt;
    Forms& forms = lowering_.forms();
    WarpTile tile = kGroupTiles.front();
    if (forms.chooses()) {
      const ProductExtents of = extents_of(lowering_, sides_);
      double best = fastest_warp_tile_ns(lowering_, sides_);
      bool found = false;
      const bool few = of.rows <= kGroupRows;
      for (const WarpTile& one : few ? std::span<const WarpTile>(kFewRowsTiles) : kGroupTiles) {
        for (const std::int64_t splits : {1, 2, 4, 8}) {
          WarpTile tried = one;
          tried.splits = splits;
          const double ns = estimated_ns(lowering_.target(), of, tried);
          if (ns >= best || !is_divided_evenly(sides_, tried) || !fits_shared(lowering_.target(), tried))
            continue;
          found = true;
          best = ns;
          tile = tried;
        }
      }
      if (!found) return std::nullopt;
      tile.group_rows = shared_rows_of_tiles(sides_, tile.rows);
    }
    read_tile_knobs(forms, tile);
    tile.warps_down = kGroupWarps * forms.knob("groups_down", tile.warps_down / kGroupWarps);
    tile.warps_across = forms.knob("groups_across", tile.warps_across);
    return is_whole_group_tile(tile) && is_divided_evenly(sides_, tile) ? std::optional(tile) : std::nullopt;
  }

  void place_operands(const Expr& first_step) override {
    left_.place("l", tile_, tile_.rows, first_row_, first_step, thread_, bound_);
    right_.place("r", tile_, tile_.columns, first_column_, first_step, thread_, bound_);
    sums_ = lowering_.scratch("a", DType::F32, {down(), tile_.warp_columns() / 2}, Scope::Register);
  }

  Stmt zero() override {
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("j", tile_.warp_columns() / 2,
                      [&](const Expr& j) { return Stmt::store(sums_, {i, j}, Expr::number(DType::F32, 0)); });
    });
  }

  // A ring of tiles: one is multiplied, the one before it is perhaps still, the others are on their way.
  Stmt products() override {
    const std::int64_t ahead = tile_.stages - 2;
    const Stmt commit = Stmt::call(Intrinsic::AsyncCommit, {});
    std::vector<Stmt> before;
    for (std::int64_t step = 0; step < ahead; ++step) {
      const Expr at = Expr::index(step);
      Stmt brought =
          tiles_.is_constant() && tiles_.constant() <= step ? Stmt::block({}) : both(at, true, false);
      if (!brought.defined()) return {};
      if (!tiles_.is_constant()) brought = Stmt::branch(at < Expr::size(tiles_), brought);
      before.insert(before.end(), {brought, commit});
    }
    const VarId turn = lowering_.loop("k", tiles_);
    const Expr step = Expr::variable(turn), next = step + Expr::index(ahead);
    std::vector<Stmt> body{Stmt::call(Intrinsic::AsyncWait, {{{}, {}, Expr::index(ahead - 1)}}),
                           Stmt::call(Intrinsic::AsyncFence, {}), Stmt::call(Intrinsic::Barrier, {})};
    if (!tiles_.is_constant() || tiles_.constant() > ahead) {
      Stmt brought = both(next, true, false);
      if (!brought.defined()) return {};
      body.push_back(Stmt::branch(next < Expr::size(tiles_), brought));
    }
    body.insert(body.end(), {commit, Stmt::call(Intrinsic::WarpgroupFence, {}),
                             multiply(te::mod(step, Expr::index(tile_.stages))),
                             Stmt::call(Intrinsic::WarpgroupCommit, {}), waited_for(1)});
    before.push_back(Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body))));
    before.push_back(waited_for(0));
    return Stmt::block(std::move(before));
  }
  static Stmt waited_for(std::int64_t left) {
    return Stmt::call(Intrinsic::WarpgroupWait, {{{}, {}, Expr::index(left)}});
  }

  Stmt multiply(const Expr& slot) {
    const Expr first = Expr::index(0);
    const Intrinsic unit =
        right_.along_depth() ? Intrinsic::WarpgroupMultiply : Intrinsic::WarpgroupMultiplyTurned;
    return unrolled("i", down(), [&](const Expr& i) {
      return Stmt::call(unit, {{sums_, {i, first}, {}},
                               left_.at(slot, group_row() + times(i, kGroupRows), first),
                               right_.at(slot, group_column(), first),
                               {{}, {}, Expr::index(kGroupRows)},
                               {{}, {}, Expr::index(tile_.warp_columns())},
                               {{}, {}, Expr::index(kGroupDepth)}});
    });
  }

  Stmt results() override {
    const Expr four = Expr::index(4), row_of_warp = times(te::mod(warp(), Expr::index(kGroupWarps)), 16);
    return unrolled("i", down(), [&](const Expr& i) {
      return unrolled("h", 2, [&](const Expr& half) {
        const Expr row = first_row_ + group_row() + times(i, kGroupRows) + row_of_warp + times(half, 8) +
                         te::floor_div(lane(), four);
        Stmt pairs = unrolled("j", tile_.warp_columns() / 8, [&](const Expr& j) {
          const Expr first = first_column_ + group_column() + times(j, 8) + times(te::mod(lane(), four), 2);
          return pair(row, first, [&](const Expr& which) {
            return Expr::load(sums_, DType::F32, {i, times(j, 4) + times(half, 2) + which});
          });
        });
        return of_row(row, pairs);
      });
    });
  }
};

}  // namespace

Stmt lower_warpgroup_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  auto sides = sides_of_tiles(lowering, stage, schedule);
  if (!sides) return {};
  const DType dtype = narrow_factor(lowering, sides->left).dtype();
  if (lowering.target().matrix_unit(dtype, kGroupRows, kMostColumns, kUnitDepth) == nullptr) return {};
  return lowering.shown_to_be_inside(WarpgroupTiles(lowering, stage, *std::move(sides)).kernel());
}

}  // namespace xyntra
