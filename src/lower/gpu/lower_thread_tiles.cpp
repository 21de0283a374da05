#include "lower/gpu/lower_thread_tiles.h"

#include <algorithm>

#include "lower/nested_loops.h"
#include "schedule/contraction/product_sides.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kNeighbours = 4;  // adjacent threads along the columns
constexpr std::int64_t kWidth = 4;  // elements of a vector
constexpr std::int64_t kItemsPerCore = 256;

// What one thread sums: rows × parts × width, the parts of neighbours between one another.
struct ThreadTile {
  std::int64_t rows, parts, width;
  std::int64_t block() const { return parts * kNeighbours * width; }
};

std::int64_t rounded_up(std::int64_t count, std::int64_t block) {
  return (count + block - 1) / block * block;
}

class ProductByThreads {
 public:
  ProductByThreads(Lowering& lowering, const te::Stage& stage, ProductSides sides)
      : lowering_(lowering), formula_(lowering.formula()), stage_(stage), sides_(std::move(sides)) {}

  Stmt run() {
    if (sides_.columns.axes.empty() || sides_.depth.axes.empty()) return {};
    const std::int64_t rows = lowering_.size(sides_.rows.extent),
                       columns = lowering_.size(sides_.columns.extent);
    if (columns < kNeighbours || rows * columns < 64) return {};
    tile_ = choose(rows, columns);
    std::vector<VarId> grid;
    for (VarId axis : sides_.batch) {
      const te::Variable& variable = formula_.variable(axis);
      grid.push_back(lowering_.loop(variable.name, variable.extent));
      bound_[axis.index] = Expr::variable(grid.back());
    }
    for (VarId axis : sides_.ones) bound_[axis.index] = Expr::index(0);
    row_block_ = lowering_.loop("m", ceil_div(sides_.rows.extent, tile_.rows));
    column_block_ = lowering_.loop("n", ceil_div(sides_.columns.extent, tile_.block()));
    neighbour_ = lowering_.loop("l", kNeighbours);
    grid.insert(grid.end(), {row_block_, column_block_, neighbour_});
    sums_ = lowering_.scratch("a", DType::F32, {tile_.rows, tile_.parts * tile_.width}, Scope::Register);
    const Stmt clear = for_tile([&](const Expr& row, const Expr&, const Expr&, const Expr& own) {
      return Stmt::store(sums_, {row, own}, Expr::number(DType::F32, 0));
    });
    const Stmt turns = products(), finish = results();
    if (!turns.defined() || !finish.defined()) return {};
    Stmt item = Stmt::block({clear, turns, finish});
    return in_loops(LoopKind::Grid, grid, std::move(item));
  }

 private:
  // Vectors where columns are contiguous in the result and come out even; the tile that computes least beyond the edges,
  // of those that leave enough work items.
  ThreadTile choose(std::int64_t rows, std::int64_t columns) const {
    const Dim& innermost = formula_.variable(sides_.columns.axes.back()).extent;
    const bool vectors = te::divides(Dim(kWidth), innermost) &&
                         lies_along(lowering_, sides_.right, sides_.columns.axes.back());
    const std::int64_t width = vectors ? kWidth : 1;
    std::int64_t batches = 1;
    for (VarId axis : sides_.batch) batches *= lowering_.size(formula_.variable(axis).extent);
    ThreadTile best{1, 1, width};
    std::int64_t least = INT64_MAX;
    for (std::int64_t high : {8, 6, 4, 2, 1}) {
      for (std::int64_t wide : {8, 4}) {
        const ThreadTile tile{high, std::max<std::int64_t>(1, wide / width), width};
        const std::int64_t area = rounded_up(rows, high) * rounded_up(columns, tile.block());
        const std::int64_t items = batches * area / (high * tile.parts * width);
        // For each turn of the sum a thread reads high + wide elements and does high * wide multiplications.
        const std::int64_t cost = area * (16 * (high + wide) + 5 * high * wide) / (high * wide);
        if (cost >= least || (items < lowering_.target().cores * kItemsPerCore && high > 1)) continue;
        least = cost;
        best = tile;
      }
    }
    return best;
  }

  // Positions beyond the edge read what the last one reads.
  Expr row_position(const Expr& row) const {
    const Expr position = Expr::variable(row_block_) * Expr::index(tile_.rows) + row;
    return te::divides(Dim(tile_.rows), sides_.rows.extent)
               ? position
               : te::min(position, Expr::size(sides_.rows.extent - Dim(1)));
  }
  Expr vector_position(const Expr& part) const {
    return (Expr::variable(column_block_) * Expr::index(tile_.parts) + part) * Expr::index(kNeighbours) +
           Expr::variable(neighbour_);
  }
  bool columns_come_out_even() const { return te::divides(Dim(tile_.block()), sides_.columns.extent); }
  Expr column_position(const Expr& part, const Expr& lane, bool inside) const {
    Expr vector = vector_position(part);
    if (!inside && !columns_come_out_even())
      vector = te::min(vector, Expr::size(floor_div(sides_.columns.extent, Dim(tile_.width)) - Dim(1)));
    return vector * Expr::index(tile_.width) + lane;
  }

  // what(part, lane, own) for the columns of a thread.
  template <class What>
  Stmt for_columns(What what) {
    const VarId part = lowering_.loop("j", tile_.parts), lane = lowering_.loop("v", tile_.width);
    const Expr own = Expr::variable(part) * Expr::index(tile_.width) + Expr::variable(lane);
    Stmt body = what(Expr::variable(part), Expr::variable(lane), own);
    if (!body.defined()) return {};
    return Stmt::loop(LoopKind::Unrolled, part, Stmt::loop(LoopKind::Vector, lane, body));
  }
  template <class What>
  Stmt for_tile(What what) {
    const VarId row = lowering_.loop("i", tile_.rows);
    Stmt body = for_columns([&](const Expr& part, const Expr& lane, const Expr& own) {
      return what(Expr::variable(row), part, lane, own);
    });
    return body.defined() ? Stmt::loop(LoopKind::Unrolled, row, body) : Stmt();
  }

  Stmt products() {
    Substitution turn = bound_;
    std::vector<VarId> loops;
    for (VarId axis : sides_.depth.axes) {
      const te::Variable& variable = formula_.variable(axis);
      loops.push_back(lowering_.loop(variable.name, variable.extent));
      turn[axis.index] = Expr::variable(loops.back());
    }
    const kir::BufferId left = lowering_.scratch("lv", DType::F32, {tile_.rows}, Scope::Register);
    const kir::BufferId right =
        lowering_.scratch("rv", DType::F32, {tile_.parts * tile_.width}, Scope::Register);
    const VarId row = lowering_.loop("i", tile_.rows);
    Substitution of_row = turn;
    sides_.rows.bind(formula_, row_position(Expr::variable(row)), of_row);
    Lowering::Body value = lowering_.body(sides_.left, of_row);
    if (!value.checks.empty()) return {};
    const Stmt lefts =
        Stmt::loop(LoopKind::Unrolled, row, Stmt::store(left, {Expr::variable(row)}, value.value));
    const Stmt rights = for_columns([&](const Expr& part, const Expr& lane, const Expr& own) -> Stmt {
      Substitution of_column = turn;
      sides_.columns.bind(formula_, column_position(part, lane, false), of_column);
      Lowering::Body factor = lowering_.body(sides_.right, of_column);
      return factor.checks.empty() ? Stmt::store(right, {own}, factor.value) : Stmt();
    });
    if (!rights.defined()) return {};
    const Stmt sums = for_tile([&](const Expr& r, const Expr&, const Expr&, const Expr& own) {
      return Stmt::store(sums_, {r, own},
                         Expr::load(sums_, DType::F32, {r, own}) +
                             Expr::load(left, DType::F32, {r}) * Expr::load(right, DType::F32, {own}));
    });
    Stmt body = Stmt::block({lefts, rights, sums});
    return in_loops(LoopKind::Serial, loops, std::move(body));
  }

  Stmt results() {
    const bool rows_even = te::divides(Dim(tile_.rows), sides_.rows.extent);
    return for_tile([&](const Expr& r, const Expr& part, const Expr& lane, const Expr& own) {
      const Expr row = Expr::variable(row_block_) * Expr::index(tile_.rows) + r;
      const Expr column = column_position(part, lane, true);
      Substitution bound = bound_;
      sides_.rows.bind(formula_, row, bound);
      sides_.columns.bind(formula_, column, bound);
      const Expr sum = Expr::load(sums_, DType::F32, {r, own});
      Lowering::Body value{{}, sum};
      if (stage_.finish.defined()) value = lowering_.body(stage_.finish, bound, sum);
      Stmt store = lowering_.store(stage_, bound, std::move(value));
      if (!rows_even) store = Stmt::branch(row < Expr::size(sides_.rows.extent), store);
      if (!columns_come_out_even()) store = Stmt::branch(column < Expr::size(sides_.columns.extent), store);
      return store;
    });
  }

  Lowering& lowering_;
  const te::Formula& formula_;
  const te::Stage& stage_;
  ProductSides sides_;
  ThreadTile tile_{};
  Substitution bound_;
  VarId row_block_, column_block_, neighbour_;
  kir::BufferId sums_;
};

}  // namespace

Stmt lower_product_by_threads(Lowering& lowering, const te::Stage& stage) {
  auto sides = product_sides(lowering, stage);
  return sides ? ProductByThreads(lowering, stage, std::move(*sides)).run() : Stmt();
}

}  // namespace xyntra
