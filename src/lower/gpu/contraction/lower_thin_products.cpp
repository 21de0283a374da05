// Products of few rows for GPUs, which are as fast as their weights come from memory: a group of threads makes some columns of
// all rows. Its threads share out the sum, read four neighbours of the weights at a time, several turns ahead of their use, and
// add up what each has in a fixed order.
#include <algorithm>
#include <set>

#include "lower/gpu/contraction/lower_groups.h"
#include "lower/gpu/contraction/lower_warp_tiles.h"
#include "lower/gpu/gpu_forms.h"
#include "lower/nested_loops.h"
#include "schedule/analysis/waiting.h"
#include "schedule/contraction/gpu_tiles.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kVector = kVectorOfThread;
constexpr std::int64_t kThinRows = 8;
constexpr std::int64_t kShortestSum = 64, kShortestOfWarps = 16;
constexpr std::int64_t kFewestColumns = 16;

class ThinProduct {
 public:
  ThinProduct(Lowering& lowering, const te::Stage& stage, ProductSides sides)
      : lowering_(lowering), formula_(lowering.formula()), stage_(stage), sides_(std::move(sides)) {}

  Stmt run() {
    if (!is_thin()) return {};
    const auto chosen = choose_skinny_group(lowering_, sides_, lowering_.forms());
    if (!chosen) return {};
    group_ = *chosen;
    std::vector<VarId> grid;
    for (VarId axis : sides_.batch) {
      const te::Variable& variable = formula_.variable(axis);
      grid.push_back(lowering_.loop(variable.name, variable.extent));
      bound_[axis.index] = Expr::variable(grid.back());
    }
    for (VarId axis : sides_.ones) bound_[axis.index] = Expr::index(0);
    const VarId block = lowering_.loop("n", ceil_div(sides_.columns.extent, group_.columns()));
    grid.push_back(block);
    const VarId across = lowering_.loop("x", group_.across), slice = lowering_.loop("z", group_.slices);
    across_ = Expr::variable(across);
    slice_ = Expr::variable(slice);
    first_column_ = Expr::variable(block) * Expr::index(group_.columns());
    // Adjacent threads read contiguous elements.
    const VarId outer = group_.deep ? across : slice, inner = group_.deep ? slice : across;
    sums_ = lowering_.scratch("a", DType::F32, {rows(), kVector}, Scope::Register);
    const Stmt products = multiply();
    if (!products.defined()) return {};
    std::vector<Stmt> body{for_sums([&](const Expr&, const Expr&) { return Expr::number(DType::F32, 0); }),
                           products};
    for (std::int64_t row = 0; row < rows(); ++row) body.push_back(result_of(row));
    Stmt item = Stmt::loop(LoopKind::Thread, outer,
                           Stmt::loop(LoopKind::Thread, inner, Stmt::block(std::move(body))));
    return in_loops(LoopKind::Grid, grid, std::move(item));
  }

 private:
  std::int64_t rows() const { return sides_.rows.extent.constant(); }

  bool is_thin() const {
    auto is_constant = [this](VarId axis) { return formula_.variable(axis).extent.is_constant(); };
    const std::int64_t shortest = lowering_.target().warp_threads > 0 ? kShortestOfWarps : kShortestSum;
    return sides_.rows.extent.is_constant() && rows() <= kThinRows && !sides_.columns.axes.empty() &&
           !sides_.depth.axes.empty() && lowering_.size(sides_.columns.extent) >= kFewestColumns &&
           lowering_.size(sides_.depth.extent) >= shortest && is_read_once() &&
           std::all_of(sides_.depth.axes.begin() + 1, sides_.depth.axes.end(), is_constant);
  }

  // Columns have no weights in common, as windows of a convolution have pixels: those are worth a tile.
  bool is_read_once() const {
    std::set<VarId> loops(sides_.columns.axes.begin(), sides_.columns.axes.end());
    loops.insert(sides_.depth.axes.begin(), sides_.depth.axes.end());
    bool once = true;
    te::for_each_node(sides_.right, [&](const te::ExprNode& node) {
      if (!te::is_load(node)) return;
      for (const Expr& index : te::index_of(node)) {
        const std::set<VarId> used = te::variables_of(index);
        once = once && std::ranges::count_if(used, [&](VarId axis) { return loops.contains(axis); }) <= 1;
      }
    });
    return once;
  }

  // ---- sums

  template <class Value>
  Stmt for_sums(Value value) {
    const VarId row = lowering_.loop("i", rows()), lane = lowering_.loop("v", kVector);
    const Expr r = Expr::variable(row), l = Expr::variable(lane);
    return Stmt::loop(LoopKind::Unrolled, row,
                      Stmt::loop(LoopKind::Vector, lane, Stmt::store(sums_, {r, l}, value(r, l))));
  }

  Stmt multiply() {
    const VarId turn =
        lowering_.loop("k", ceil_div(sides_.depth.extent, group_.depth_of_turn() * group_.prefetch));
    const VarId ahead = lowering_.loop("u", group_.prefetch), step = lowering_.loop("t", group_.prefetch);
    // Of the rows' factor a thread reads one element for each vector along the columns.
    const std::int64_t left_lanes = group_.deep ? kVector : 1;
    const kir::BufferId weights =
        lowering_.scratch("w", DType::F32, {group_.prefetch, kVector}, Scope::Register);
    const kir::BufferId others =
        lowering_.scratch("l", DType::F32, {group_.prefetch, rows(), left_lanes}, Scope::Register);
    const Expr at = Expr::variable(turn) * Expr::index(group_.prefetch) + Expr::variable(ahead);
    auto depth = [&](const Expr& lane) {
      const Expr slice = at * Expr::index(group_.slices) + slice_;
      return group_.deep ? slice * Expr::index(kVector) + lane : slice;
    };
    const VarId lane = lowering_.loop("v", kVector), row = lowering_.loop("i", rows()),
                part = lowering_.loop("v", left_lanes);
    const Expr lane_at = Expr::variable(lane), row_at = Expr::variable(row), part_at = Expr::variable(part);
    const Expr right = factor(sides_.right, depth(lane_at), {}, column(group_.deep ? Expr() : lane_at));
    const Expr left = factor(sides_.left, depth(part_at), row_at, {});
    if (!right.defined() || !left.defined()) return {};
    const bool left_vectors =
        group_.deep && comes_in_vectors(lowering_, sides_.left, sides_.depth.axes.back());
    const Stmt fetch = Stmt::loop(
        LoopKind::Unrolled, ahead,
        Stmt::block(
            {Stmt::loop(LoopKind::Vector, lane,
                        Stmt::store(weights, {Expr::variable(ahead), lane_at}, right)),
             Stmt::loop(LoopKind::Unrolled, row,
                        Stmt::loop(left_vectors ? LoopKind::Vector : LoopKind::Unrolled, part,
                                   Stmt::store(others, {Expr::variable(ahead), row_at, part_at}, left)))}));
    const Stmt add = for_sums([&](const Expr& r, const Expr& l) {
      const Expr own = Expr::variable(step), other = group_.deep ? l : Expr::index(0);
      return te::fma(Expr::load(others, DType::F32, {own, r, other}),
                     Expr::load(weights, DType::F32, {own, l}), Expr::load(sums_, DType::F32, {r, l}));
    });
    return Stmt::loop(LoopKind::Serial, turn,
                      Stmt::block({fetch, Stmt::loop(LoopKind::Unrolled, step, add)}));
  }

  Expr column(const Expr& lane) const {
    const Expr own = lane.defined() ? across_ * Expr::index(kVector) + lane : across_;
    return first_column_ + own;
  }

  // A factor at these positions, zero outside; undefined where its indices would have to be checked.
  Expr factor(const Expr& expr, const Expr& depth, const Expr& row, const Expr& column) {
    Substitution bound = bound_;
    sides_.depth.bind(formula_, depth, bound);
    if (row.defined()) sides_.rows.bind(formula_, row, bound);
    if (column.defined()) sides_.columns.bind(formula_, column, bound);
    const Lowering::Body value = lowering_.body(expr, bound);
    if (!value.checks.empty()) return {};
    Expr is_inside = inside(depth, sides_.depth.extent, group_.depth_of_turn() * group_.prefetch);
    if (column.defined())
      is_inside = conjunction_of(is_inside, inside(column, sides_.columns.extent, group_.columns()));
    return zero_outside(is_inside, value.value);
  }

  // ---- results: all slices' sums of a row, four by four and then the rest

  Stmt result_of(std::int64_t row) {
    const std::int64_t stretches = group_.slices / kFirstSums;
    if (!parts_.valid()) {
      parts_ = lowering_.scratch("p", DType::F32, {group_.slices, group_.columns()}, Scope::Shared);
      few_ = lowering_.scratch("q", DType::F32, {stretches, group_.columns()}, Scope::Shared);
    }
    const Stmt lay_down = for_columns([&](const Expr& lane, const Expr& place) {
      return Stmt::store(parts_, {slice_, place}, own_sum(row, lane));
    });
    const Stmt some = for_columns([&](const Expr&, const Expr& place) {
      return Stmt::store(few_, {slice_, place}, added_up(kFirstSums, [&](std::int64_t i) {
                           const Expr slice = slice_ * Expr::index(kFirstSums) + Expr::index(i);
                           return Expr::load(parts_, DType::F32, {slice, place});
                         }));
    });
    const Stmt all = for_columns([&](const Expr&, const Expr& place) {
      return finished(row, place, added_up(stretches, [&](std::int64_t i) {
                        return Expr::load(few_, DType::F32, {Expr::index(i), place});
                      }));
    });
    const Stmt barrier = Stmt::call(kir::Intrinsic::Barrier, {});
    return Stmt::block({lay_down, barrier, Stmt::branch(slice_ < Expr::index(stretches), some), barrier,
                        Stmt::branch(te::equal(slice_, 0), all)});
  }

  // what(lane, place) for the columns of a thread.
  template <class What>
  Stmt for_columns(What what) {
    const VarId lane = lowering_.loop("v", group_.deep ? 1 : kVector);
    const Expr l = Expr::variable(lane);
    return Stmt::loop(group_.deep ? LoopKind::Unrolled : LoopKind::Vector, lane,
                      what(l, group_.deep ? across_ : across_ * Expr::index(kVector) + l));
  }

  Expr own_sum(std::int64_t row, const Expr& lane) const {
    auto own = [&](const Expr& at) { return Expr::load(sums_, DType::F32, {Expr::index(row), at}); };
    if (!group_.deep) return own(lane);
    return added_up(kVector, [&](std::int64_t i) { return own(Expr::index(i)); });
  }

  template <class Term>
  static Expr added_up(std::int64_t count, Term term) {
    std::vector<Expr> terms;
    for (std::int64_t i = 0; i < count; ++i) terms.push_back(term(i));
    return combined_in_pairs(te::Reducer::Sum, std::move(terms));
  }

  Stmt finished(std::int64_t row, const Expr& place, const Expr& sum) {
    const Expr position = first_column_ + place;
    Substitution bound = bound_;
    sides_.rows.bind(formula_, Expr::index(row), bound);
    sides_.columns.bind(formula_, position, bound);
    Lowering::Body value{{}, sum};
    if (stage_.finish.defined()) value = lowering_.body(stage_.finish, bound, sum);
    const Stmt store = lowering_.store(stage_, bound, std::move(value));
    const Expr is_inside = inside(position, sides_.columns.extent, group_.columns());
    return is_inside.defined() ? Stmt::branch(is_inside, store) : store;
  }

  Lowering& lowering_;
  const te::Formula& formula_;
  const te::Stage& stage_;
  ProductSides sides_;
  SkinnyGroup group_;
  Substitution bound_;
  Expr across_, slice_, first_column_;
  kir::BufferId sums_, parts_, few_;
};

}  // namespace

Stmt lower_thin_product(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  if (schedule.exactness == Exactness::Exact || !hides_waiting(lowering.target())) return {};
  if (lowering.forms().chooses() && has_copied_tiles(lowering, stage, schedule)) return {};
  auto sides = product_sides(lowering, stage);
  return sides ? ThinProduct(lowering, stage, std::move(*sides)).run() : Stmt();
}

}  // namespace xyntra
