// Rows for GPUs: a group of threads does the same row of every stage of a formula. Values between the stages stay in shared
// memory where they fit, what a row has one of in registers of every thread.
#include <algorithm>
#include <functional>

#include "schedule/alignment.h"
#include "schedule/group_stage.h"
#include "schedule/lower_groups.h"
#include "schedule/nested_loops.h"
#include "schedule/sheltered_loads.h"

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
constexpr std::int64_t kTermsOfThread = 64;
constexpr std::int64_t kShortRow = 8;  // shorter ones are a thread's work
constexpr std::int64_t kManyRows = 2048;
constexpr std::int64_t kSmallRow = 16384;  // turns of all its stages

class RowsInGroups {
 public:
  RowsInGroups(Lowering& lowering, bool keep_order)
      : lowering_(lowering),
        formula_(lowering.formula()),
        group_(lowering, keep_order ? GroupStage::Sums::InOrder : GroupStage::Sums::InParts) {}

  Stmt run(std::int64_t most_turns) {
    for (const Stage& stage : formula_.stages) {
      if (stage.kind != Stage::Kind::MapReduce || !group_.is_shared_out(stage)) return {};
    }
    const Alignment alignment(formula_);
    find_rows(alignment);
    if ((rows_.empty() && !is_one_small_row(formula_, Stages::AsTheyAre)) || !is_worth_it() ||
        rows_are_interleaved(alignment))
      return {};
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      if (group_.turns(formula_.stages[s], free_of(s, alignment)) > most_turns) return {};
    }
    place_values(alignment);
    std::vector<VarId> grid;
    for (Alignment::Class id : rows_) grid.push_back(lowering_.loop("row", alignment.extent(id)));
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    Stmt item = group_.around([&] {
      std::vector<Stmt> body;
      for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
        Substitution bound;
        for (std::size_t r = 0; r < rows_.size(); ++r)
          bound[alignment.axis_of(s, rows_[r]).index] = Expr::variable(grid[r]);
        body.push_back(group_.lowered(formula_.stages[s], free_of(s, alignment), bound));
      }
      return Stmt::block(std::move(body));
    });
    item = in_loops(LoopKind::Grid, grid, std::move(item));
    return shelter_loads(lowering_.kernel(), item);
  }

 private:
  void find_rows(const Alignment& alignment) {
    for (Alignment::Class id = 0; id < alignment.class_count(); ++id) {
      bool everywhere = alignment.independent(id) && !alignment.extent(id).is(1);
      for (std::size_t s = 0; s < formula_.stages.size(); ++s)
        everywhere = everywhere && alignment.axis_of(s, id).valid();
      if (everywhere) rows_.push_back(id);
    }
    is_row_ = std::vector<bool>(alignment.class_count(), false);
    for (Alignment::Class id : rows_) is_row_[id] = true;
    std::int64_t products = 0;  // of several long sums for each row
    for (const Stage& stage : formula_.stages) {
      std::int64_t length = group_.elements(stage);
      for (Alignment::Class id : rows_)
        length /= std::max<std::int64_t>(1, lowering_.size(alignment.extent(id)));
      longest_ = std::max({longest_, length, group_.terms(stage)});
      if (length > 1 && !stage.reduction.empty()) products = std::max(products, length * group_.terms(stage));
    }
    group_.threads = 32;
    auto is_few = [&] {
      return group_.threads * 2 * kRowLanes <= longest_ || group_.threads * kTermsOfThread < products;
    };
    while (group_.threads < kMostThreads && is_few()) group_.threads *= 2;
  }

  // Loops of a stage that are not those of rows.
  std::vector<VarId> free_of(std::size_t s, const Alignment& alignment) const {
    std::vector<VarId> free;
    for (VarId axis : formula_.stages[s].axes) {
      if (std::ranges::none_of(rows_, [&](Alignment::Class id) { return alignment.axis_of(s, id) == axis; }))
        free.push_back(axis);
    }
    return free;
  }

  // Many rows that a device reads at once where neighbouring threads have neighbouring rows, and not along a row: the columns of a
  // matrix.
  bool rows_are_interleaved(const Alignment& alignment) const {
    std::int64_t rows = 1;
    for (Alignment::Class id : rows_) rows *= std::max<std::int64_t>(1, lowering_.size(alignment.extent(id)));
    if (rows < kManyRows) return false;
    bool across = false, along = false;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      const Stage& stage = formula_.stages[s];
      if (group_.terms(stage) < kShortRow) continue;
      te::for_each_node(stage.body, [&](const te::ExprNode& node) {
        if (!te::is_load(node)) return;
        const std::vector<Expr> index = te::index_of(node);
        auto is_neighbour = [&](VarId loop) {
          const auto stride = lowering_.stride(node.buffer, index, loop);
          return stride && stride->is(1);
        };
        across = across || std::ranges::any_of(rows_, [&](Alignment::Class id) {
                   return is_neighbour(alignment.axis_of(s, id));
                 });
        const bool of_rows = std::ranges::any_of(rows_, [&](Alignment::Class id) {
          const auto stride = lowering_.stride(node.buffer, index, alignment.axis_of(s, id));
          return !stride || !stride->is(0);
        });
        along = along || (of_rows && std::ranges::any_of(stage.reduction, is_neighbour));
      });
    }
    return across && !along;
  }

  bool is_worth_it() const {
    if (formula_.stages.size() == 1) return group_.terms(formula_.stages[0]) >= kLongSum;
    return longest_ >= kShortRow;
  }

  // A dimension that is written along rows alone is seen one turn at a time.
  void place_values(const Alignment& alignment) {
    std::int64_t left = lowering_.target().group_shared_bytes - 4 * group_.threads;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s)
      left -= group_.shared_bytes(formula_.stages[s], free_of(s, alignment));
    for (const Stage& stage : formula_.stages) {
      const te::BufferInfo& buffer = formula_.buffer(stage.target);
      if (lowering_.is_placed(buffer.id)) continue;
      const std::vector<bool> kept =
          alignment.held(buffer.id, [this](Alignment::Class id) { return is_row_[id]; });
      Dim bytes = (bits_of(buffer.dtype) + 7) / 8;
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        if (kept[d]) bytes = bytes * buffer.shape[d];
      }
      if (!group_.keeps_order() && std::ranges::none_of(kept, std::identity())) {
        group_.own.insert(buffer.id);
        lowering_.place(buffer.id, Scope::Register, kept);
        continue;
      }
      if (is_in_step(buffer, kept, alignment)) {
        group_.own.insert(buffer.id);
        const auto dimension = static_cast<std::size_t>(std::ranges::find(kept, true) - kept.begin());
        lowering_.place_in_turns(buffer.id, kept, {dimension, group_.threads, kRowLanes});
        continue;
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

  // Whether every thread reads nothing but the elements that it wrote: all stages go along the one dimension alike.
  bool is_in_step(const te::BufferInfo& buffer, const std::vector<bool>& kept,
                  const Alignment& alignment) const {
    if (group_.keeps_order() || !has_vectors(lowering_.target(), buffer.dtype) ||
        std::ranges::count(kept, true) != 1)
      return false;
    const auto dimension = static_cast<std::size_t>(std::ranges::find(kept, true) - kept.begin());
    const Dim& extent = buffer.shape[dimension];
    if (!extent.is_constant() || !te::divides(Dim(kRowLanes), extent) ||
        extent.constant() > kMostTurns * group_.threads * kRowLanes)
      return false;
    // The loop that the threads of a stage share out, a vector at a time.
    auto shared_loop = [&](std::size_t s) {
      const Stage& stage = formula_.stages[s];
      VarId found;
      int loops = 0;
      auto count = [&](VarId axis) {
        if (formula_.variable(axis).extent.is(1)) return;
        found = axis;
        ++loops;
      };
      for (VarId axis : stage.axes) {
        if (!is_row_[alignment.class_of(s, axis)]) count(axis);
      }
      const bool is_free = loops > 0;
      for (VarId axis : stage.reduction) count(axis);
      const bool sums = stage.reducer != te::Reducer::None;
      const bool vectors =
          has_vectors(lowering_.target(), sums ? stage.body.dtype() : formula_.buffer(stage.target).dtype);
      return loops == 1 && vectors && is_free != sums && formula_.variable(found).extent == extent ? found
                                                                                                   : VarId();
    };
    auto goes_along = [](const Expr& index, VarId loop) {
      return loop.valid() && index->op == te::ExprOp::Var && index->var == loop;
    };
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      const Stage& stage = formula_.stages[s];
      const VarId loop = shared_loop(s);
      bool fits = stage.target != buffer.id ||
                  (stage.reducer == te::Reducer::None && goes_along(stage.store[dimension], loop));
      te::for_each_node(stage, [&](const te::ExprNode& node) {
        if (!te::is_load(node) || node.buffer != buffer.id) return;
        fits = fits && node.op == te::ExprOp::Load && goes_along(te::index_of(node)[dimension], loop);
      });
      // Where a result is one for the whole row, a finish is computed apart from the elements.
      const bool finishes = stage.finish.defined() && !stage.reduction.empty();
      if (!fits || (finishes && te::reads(stage.finish, buffer.id))) return false;
    }
    return true;
  }

  Lowering& lowering_;
  const te::Formula& formula_;
  GroupStage group_;
  std::vector<Alignment::Class> rows_;
  std::vector<bool> is_row_;  // by class
  std::int64_t longest_ = 1;  // what threads share of one row
};

}  // namespace

bool is_one_small_row(const te::Formula& formula, Stages stages) {
  Dim work = 0;
  for (const Stage& stage : formula.stages) {
    Dim all = 1;
    for (const auto* loops : {&stage.axes, &stage.reduction}) {
      for (VarId loop : *loops) all = all * formula.variable(loop).extent;
    }
    work = work + all;
  }
  return formula.stages.size() > 1 && work.is_constant() &&
         work.constant() <= (stages == Stages::AsTheyAre ? kSmallRow : kSmallRow / 2);
}

Stmt lower_rows_in_groups(Lowering& lowering, const Schedule& schedule) {
  return lower_rows_in_groups(lowering, schedule, INT64_MAX);
}

Stmt lower_rows_in_groups(Lowering& lowering, const Schedule& schedule, std::int64_t most_turns) {
  return RowsInGroups(lowering, keeps_order(lowering, schedule)).run(most_turns);
}

}  // namespace xyntra
