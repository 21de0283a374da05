#include "lower/gpu/contraction/product_tiles.h"

#include "lower/nested_loops.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

ProductTiles::ProductTiles(Lowering& lowering, const te::Stage& stage, ProductSides sides)
    : lowering_(lowering),
      stage_(stage),
      sides_(std::move(sides)),
      dtype_(narrow_factor(lowering, sides_.left).dtype()),
      sum_dtype_(sides_.left.dtype()),
      left_(lowering, narrow_factor(lowering, sides_.left), sides_.rows, sides_.depth),
      right_(lowering, narrow_factor(lowering, sides_.right), sides_.columns, sides_.depth) {}

Stmt ProductTiles::kernel() {
  const auto tile = choose();
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
  place_operands(first_step);
  Stmt all = products(), finish = results();
  if (!all.defined() || !finish.defined()) return {};
  Stmt item = Stmt::loop(LoopKind::Thread, thread_, Stmt::block({zero(), all, finish}));
  Stmt sums = in_loops(LoopKind::Grid, grid, std::move(item));
  return tile_.splits == 1 ? sums : Stmt::block({sums, added_up()});
}

Expr ProductTiles::lane() const { return te::mod(Expr::variable(thread_), Expr::index(kir::kWarpThreads)); }
Expr ProductTiles::warp() const {
  return te::floor_div(Expr::variable(thread_), Expr::index(kir::kWarpThreads));
}

Stmt ProductTiles::both(const Expr& step, bool issue, bool lay_down) {
  std::vector<Stmt> all;
  for (WarpOperand* one : {&left_, &right_}) {
    if (issue) all.push_back(one->issue(step));
    if (issue && !all.back().defined()) return {};
    if (lay_down) all.push_back(one->lay_down(step));
  }
  return Stmt::block(std::move(all));
}

// ---- results: two neighbours of a row at a time

Stmt ProductTiles::of_row(const Expr& row, Stmt what) const {
  const Expr is_inside = is_on_side(lowering_, sides_.rows, row, tile_.rows);
  return what.defined() && is_inside.defined() ? Stmt::branch(is_inside, what) : what;
}

Stmt ProductTiles::pair(const Expr& row, const Expr& first,
                        const std::function<Expr(const Expr& which)>& sum_of) {
  const VarId lane_of_pair = lowering_.loop("v", 2);
  const Expr v = Expr::variable(lane_of_pair);
  const Expr column = first + v;
  Substitution bound = bound_;
  sides_.rows.bind(lowering_.formula(), row, bound);
  sides_.columns.bind(lowering_.formula(), column, bound);
  const Expr sum = sum_of(v);
  Stmt store =
      part_.defined() ? Stmt::store(parts_, place_of_part(part_, row, column), sum) : finished(bound, sum);
  // Where columns are even, both neighbours are inside or neither is; of several loops that is not shown.
  const bool even = te::divides(Dim(2), sides_.columns.extent) && sides_.columns.axes.size() == 1;
  const Expr is_inside = inside(even ? first + Expr::index(1) : column, sides_.columns.extent, tile_.columns);
  if (is_inside.defined() && !even) store = Stmt::branch(is_inside, store);
  Stmt both = Stmt::loop(LoopKind::Vector, lane_of_pair, store);
  return is_inside.defined() && even ? Stmt::branch(is_inside, both) : both;
}

Stmt ProductTiles::finished(const Substitution& bound, const Expr& sum) {
  Lowering::Body value{{}, sum};
  if (stage_.finish.defined()) value = lowering_.body(stage_.finish, bound, sum);
  return lowering_.store(stage_, bound, std::move(value));
}

// ---- sums in parts: the first launch leaves them in memory, the second one adds them up in their order

void ProductTiles::place_parts() {
  Shape shape{Dim(tile_.splits)};
  for (VarId axis : sides_.batch) shape.push_back(lowering_.formula().variable(axis).extent);
  shape.insert(shape.end(), {sides_.rows.extent, sides_.columns.extent});
  parts_ = lowering_.scratch("w", sum_dtype_, std::move(shape), Scope::Workspace);
}

std::vector<Expr> ProductTiles::place_of_part(const Expr& part, const Expr& row, const Expr& column) const {
  std::vector<Expr> index{part};
  for (VarId axis : sides_.batch) index.push_back(bound_.at(axis.index));
  index.insert(index.end(), {row, column});
  return index;
}

Stmt ProductTiles::added_up() {
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
    const Expr one = Expr::load(parts_, sum_dtype_, place_of_part(Expr::index(part), row, column));
    sum = sum.defined() ? sum + one : one;
  }
  Substitution bound = bound_;
  sides_.rows.bind(lowering_.formula(), row, bound);
  sides_.columns.bind(lowering_.formula(), column, bound);
  return in_loops(LoopKind::Grid, grid, Stmt::loop(LoopKind::Vector, lane, finished(bound, sum)));
}

}  // namespace xyntra
