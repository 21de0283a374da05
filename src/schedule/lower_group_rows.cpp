// Rows for GPUs: a group of threads does the same row of every stage of a formula. Values between the stages stay in shared
// memory where they fit; sums along the row are made in parts that are added up in a fixed order.
#include <algorithm>

#include "schedule/alignment.h"
#include "schedule/lower_groups.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kMostShared = 8192;  // bytes of one value between stages
constexpr std::int64_t kLongSum = 256;  // worth a group of threads by itself

class RowsInGroups {
 public:
  RowsInGroups(Lowering& lowering, bool keep_order)
      : lowering_(lowering), formula_(lowering.formula()), keep_order_(keep_order) {}

  Stmt run() {
    for (const Stage& stage : formula_.stages) {
      if (stage.kind != Stage::Kind::MapReduce || bits_of(formula_.buffer(stage.target).dtype) < 32)
        return {};
    }
    const Alignment alignment(formula_);
    find_rows(alignment);
    if (rows_.empty() || !is_worth_it()) return {};
    place_values(alignment);
    std::vector<VarId> grid;
    for (Alignment::Class id : rows_) grid.push_back(lowering_.loop("row", alignment.extent(id)));
    thread_ = lowering_.loop("x", threads_);
    std::vector<Stmt> body;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      const Stage& stage = formula_.stages[s];
      Substitution bound;
      std::vector<VarId> free;
      for (VarId axis : stage.axes) {
        auto row = std::find_if(rows_.begin(), rows_.end(),
                                [&](Alignment::Class id) { return alignment.axis_of(s, id) == axis; });
        if (row == rows_.end()) {
          free.push_back(axis);
        } else {
          bound[axis.index] = Expr::variable(grid[static_cast<std::size_t>(row - rows_.begin())]);
        }
      }
      if (s > 0) body.push_back(barrier());
      body.push_back(row_of(stage, free, bound));
    }
    Stmt item = Stmt::loop(LoopKind::Thread, thread_, Stmt::block(std::move(body)));
    for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
      item = Stmt::loop(LoopKind::Grid, *loop, item);
    return item;
  }

 private:
  static Stmt barrier() { return Stmt::call(kir::Intrinsic::Barrier, {}); }

  void find_rows(const Alignment& alignment) {
    for (Alignment::Class id = 0; id < alignment.class_count(); ++id) {
      bool everywhere = alignment.independent(id) && !alignment.extent(id).is(1);
      for (std::size_t s = 0; s < formula_.stages.size(); ++s)
        everywhere = everywhere && alignment.axis_of(s, id).valid();
      if (everywhere) rows_.push_back(id);
    }
    is_row_ = std::vector<bool>(alignment.class_count(), false);
    for (Alignment::Class id : rows_) is_row_[id] = true;
    std::int64_t longest = 1;  // what threads share of one row
    for (const Stage& stage : formula_.stages) {
      std::int64_t length = 1;
      for (VarId axis : stage.axes) length *= lowering_.size(formula_.variable(axis).extent);
      for (Alignment::Class id : rows_)
        length /= std::max<std::int64_t>(1, lowering_.size(alignment.extent(id)));
      longest = std::max({longest, length, turns(stage)});
    }
    longest_ = longest;
    threads_ = 32;
    while (threads_ < 256 && threads_ * 2 <= longest) threads_ *= 2;
  }

  std::int64_t turns(const Stage& stage) const {
    std::int64_t count = 1;
    for (VarId axis : stage.reduction) count *= lowering_.size(formula_.variable(axis).extent);
    return count;
  }

  bool is_worth_it() const {
    if (formula_.stages.size() == 1) return turns(formula_.stages[0]) >= kLongSum;
    return longest_ >= threads_;
  }

  // A dimension that is written along rows alone is seen one turn at a time.
  void place_values(const Alignment& alignment) {
    std::int64_t left = lowering_.target().group_shared_bytes - 4 * threads_;
    for (const Stage& stage : formula_.stages) {
      const te::BufferInfo& buffer = formula_.buffer(stage.target);
      if (lowering_.is_placed(buffer.id)) continue;
      std::vector<bool> kept(buffer.shape.size(), true);
      Dim bytes = (bits_of(buffer.dtype) + 7) / 8;
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        const std::vector<Alignment::Class> along = alignment.written_along(buffer.id, d);
        const bool row = !along.empty() && std::all_of(along.begin(), along.end(),
                                                       [this](Alignment::Class id) { return is_row_[id]; });
        kept[d] = !row && !(along.empty() && buffer.shape[d].is(1));
        if (kept[d]) bytes = bytes * buffer.shape[d];
      }
      const bool fits = bytes.is_constant() && bytes.constant() <= std::min(left, kMostShared);
      if (fits) {
        left -= bytes.constant();
        lowering_.place(buffer.id, Scope::Shared, kept);
      } else {
        lowering_.place(buffer.id, Scope::Workspace);
      }
    }
  }

  // ---- one stage of one row

  struct Loops {
    std::vector<VarId> axes;
    Dim extent = 1;
  };
  Loops loops_of(const std::vector<VarId>& axes, Substitution& bound) const {
    Loops loops;
    for (VarId axis : axes) {
      const Dim& extent = formula_.variable(axis).extent;
      if (extent.is(1)) {
        bound[axis.index] = Expr::index(0);
        continue;
      }
      loops.axes.push_back(axis);
      loops.extent = loops.extent * extent;
    }
    return loops;
  }

  // Threads take turns: what(bound) at every position of these loops.
  template <class What>
  Stmt shared_out(const Loops& loops, const Substitution& bound, What what) {
    const VarId turn = lowering_.loop("i", ceil_div(loops.extent, Dim(threads_)));
    const Expr position = Expr::variable(turn) * Expr::index(threads_) + Expr::variable(thread_);
    Substitution inner = bound;
    Dim stride = 1;
    for (std::size_t i = loops.axes.size(); i-- > 0;) {
      const Dim& extent = formula_.variable(loops.axes[i]).extent;
      Expr digit = stride.is(1) ? position : te::floor_div(position, Expr::size(stride));
      inner[loops.axes[i].index] = i == 0 ? digit : te::mod(digit, Expr::size(extent));
      stride = stride * extent;
    }
    Stmt body = what(inner);
    if (!te::divides(Dim(threads_), loops.extent))
      body = Stmt::branch(position < Expr::size(loops.extent), body);
    return Stmt::loop(LoopKind::Serial, turn, body);
  }

  Stmt accumulate(kir::BufferId sum, const Stage& stage, const Substitution& bound) {
    const DType dtype = stage.body.dtype();
    Lowering::Body body = lowering_.body(stage.body, bound);
    body.checks.push_back(
        Stmt::store(sum, {}, combined(stage.reducer, Expr::load(sum, dtype, {}), body.value)));
    return Stmt::block(std::move(body.checks));
  }

  Stmt in_order(kir::BufferId sum, const Stage& stage, Substitution bound) {
    std::vector<VarId> loops;
    for (VarId axis : stage.reduction) {
      const te::Variable& variable = formula_.variable(axis);
      if (variable.extent.is(1)) {
        bound[axis.index] = Expr::index(0);
        continue;
      }
      loops.push_back(lowering_.loop(variable.name, variable.extent));
      bound[axis.index] = Expr::variable(loops.back());
    }
    Stmt body = accumulate(sum, stage, bound);
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      body = Stmt::loop(LoopKind::Serial, *loop, body);
    return body;
  }

  Stmt finish(const Stage& stage, const Substitution& bound, const Expr& reduced) {
    Lowering::Body value{{}, reduced};
    if (stage.finish.defined()) value = lowering_.body(stage.finish, bound, reduced);
    return lowering_.store(stage, bound, std::move(value));
  }

  Stmt element(const Stage& stage, const Substitution& bound) {
    if (stage.reducer == te::Reducer::None) {
      Lowering::Body value = lowering_.body(stage.body, bound);
      if (stage.finish.defined()) {
        Lowering::Body last = lowering_.body(stage.finish, bound, value.value);
        value.checks.insert(value.checks.end(), last.checks.begin(), last.checks.end());
        value.value = std::move(last.value);
      }
      return lowering_.store(stage, bound, std::move(value));
    }
    const DType dtype = stage.body.dtype();
    const kir::BufferId sum = lowering_.scratch("a", dtype, {}, Scope::Register);
    return Stmt::block({Stmt::store(sum, {}, identity_of(stage.reducer, dtype)), in_order(sum, stage, bound),
                        finish(stage, bound, Expr::load(sum, dtype, {}))});
  }

  Stmt row_of(const Stage& stage, const std::vector<VarId>& free, Substitution bound) {
    const Loops loops = loops_of(free, bound);
    const bool one = loops.axes.empty();
    if (!one || stage.reducer == te::Reducer::None || keep_order_) {
      if (!one) return shared_out(loops, bound, [&](const Substitution& at) { return element(stage, at); });
      return Stmt::branch(te::equal(Expr::variable(thread_), 0), element(stage, bound));
    }
    return together(stage, std::move(bound));
  }

  // One sum by all threads: each adds up every so-manieth element, then halves of the threads add to one another.
  Stmt together(const Stage& stage, Substitution bound) {
    const DType dtype = stage.body.dtype();
    const kir::BufferId sum = lowering_.scratch("a", dtype, {}, Scope::Register);
    const kir::BufferId parts = lowering_.scratch("p", dtype, {threads_}, Scope::Shared);
    const Loops loops = loops_of(stage.reduction, bound);
    const Expr thread = Expr::variable(thread_);
    auto part = [&](const Expr& at) { return Expr::load(parts, dtype, {at}); };
    std::vector<Stmt> body;
    body.push_back(Stmt::store(sum, {}, identity_of(stage.reducer, dtype)));
    body.push_back(
        shared_out(loops, bound, [&](const Substitution& at) { return accumulate(sum, stage, at); }));
    body.push_back(Stmt::store(parts, {thread}, Expr::load(sum, dtype, {})));
    body.push_back(barrier());
    for (std::int64_t apart = threads_ / 2; apart >= 1; apart /= 2) {
      Stmt add = Stmt::store(parts, {thread},
                             combined(stage.reducer, part(thread), part(thread + Expr::index(apart))));
      body.push_back(Stmt::branch(thread < Expr::index(apart), add));
      body.push_back(barrier());
    }
    body.push_back(Stmt::branch(te::equal(thread, 0), finish(stage, bound, part(Expr::index(0)))));
    return Stmt::block(std::move(body));
  }

  Lowering& lowering_;
  const te::Formula& formula_;
  const bool keep_order_;
  std::vector<Alignment::Class> rows_;
  std::vector<bool> is_row_;  // by class
  std::int64_t threads_ = 32, longest_ = 1;
  VarId thread_;
};

}  // namespace

Stmt lower_rows_in_groups(Lowering& lowering, const Schedule& schedule) {
  return RowsInGroups(lowering, schedule.exactness == Exactness::Exact).run();
}

}  // namespace xyntra
