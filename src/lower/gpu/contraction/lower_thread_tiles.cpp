// Products of matrices without shared memory: a thread sums a tile of the result in its registers, each element in the order
// of the sum. Threads that run in lockstep read neighbours along the columns and one and the same element of a row.
//
// What is shared costs nothing to share where a cache holds it anyway: on adapters that are processors, whose threads
// would wait for one another at great cost. It is also how sums that must keep their order are shared.
#include <algorithm>

#include "lower/gpu/contraction/lower_groups.h"
#include "lower/gpu/gpu_forms.h"
#include "lower/nested_loops.h"
#include "schedule/contraction/gpu_tiles.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kNeighbours = ThreadTile::kNeighbours;

class ProductByThreads {
 public:
  ProductByThreads(Lowering& lowering, const te::Stage& stage, ProductSides sides)
      : lowering_(lowering), formula_(lowering.formula()), stage_(stage), sides_(std::move(sides)) {}

  Stmt run() {
    if (sides_.columns.axes.empty() || sides_.depth.axes.empty()) return {};
    const std::int64_t rows = lowering_.size(sides_.rows.extent),
                       columns = lowering_.size(sides_.columns.extent);
    if (columns < kNeighbours || rows * columns < 64) return {};
    tile_ = choose_thread_tile(lowering_, sides_, lowering_.forms());
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
  ThreadTile tile_;
  Substitution bound_;
  VarId row_block_, column_block_, neighbour_;
  kir::BufferId sums_;
};

}  // namespace

Stmt lower_thread_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  const Forms& forms = lowering.forms();
  if (forms.chooses() && forms.may_be(Form::SplitSums) && is_for_split_sums(lowering, stage, schedule))
    return {};
  auto sides = product_sides(lowering, stage);
  return sides ? ProductByThreads(lowering, stage, std::move(*sides)).run() : Stmt();
}

}  // namespace xyntra
