// Stages for GPUs that do not wait for one another, as one launch: the parts of a concatenation, copies of several tensors.
// They differ in the length of one loop at most; along it their work items lie one behind another:
//   out[i]        = a[i]  for i < n      grid g < n + m { if g < n { out[g] = a[g] } else { out[g] = b[g - n] } }
//   out[i + n]    = b[i]  for i < m
#include <algorithm>
#include <set>

#include "lower/gpu/contraction/lower_groups.h"
#include "te/index/index.h"

namespace xyntra {

using kir::LoopKind;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kSideLanes = 4;
constexpr std::size_t kMostStages = 8;

std::set<te::BufferId> read_by(const Stage& stage) {
  std::set<te::BufferId> found;
  te::for_each_node(stage, [&](const te::ExprNode& node) {
    if (te::is_load(node)) found.insert(node.buffer);
  });
  return found;
}

class HorizontallyFused {
 public:
  explicit HorizontallyFused(Lowering& lowering) : lowering_(lowering), formula_(lowering.formula()) {}

  // Whether the stage can lie beside those taken so far; it is then one of them.
  bool take(const Stage& stage) {
    const bool plain = stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::None &&
                       !stage.finish.defined() && !stage.axes.empty();
    if (!plain || stages_.size() == kMostStages || !lies_beside(stage) || waits(stage)) return false;
    stages_.push_back(&stage);
    return true;
  }

  std::size_t size() const { return stages_.size(); }

  Stmt lower() {
    const std::vector<VarId>& axes = stages_.front()->axes;
    const bool vectors = along_ + 1 < axes.size() && std::ranges::all_of(stages_, [this](const Stage* stage) {
                           return takes_vectors(*stage);
                         });
    std::vector<VarId> grid;
    Dim together = 0;
    for (const Stage* stage : stages_) together = together + extent(*stage, along_);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const Dim turns = i == along_ ? together : extent(*stages_.front(), i);
      const bool last = vectors && i + 1 == axes.size();
      grid.push_back(
          lowering_.loop(formula_.variable(axes[i]).name, last ? floor_div(turns, kSideLanes) : turns));
    }
    // From the last stage back to the first: what is not one's own is the next one's.
    Stmt item;
    Dim end = together;
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      const Dim begin = end - extent(**stage, along_);
      if (extent(**stage, along_).is(0) && !together.is(0)) continue;
      Stmt own = element(**stage, grid, begin, vectors);
      if (!own.defined()) return {};
      item = item.defined() ? Stmt::branch(Expr::variable(grid[along_]) < Expr::size(end), own, item) : own;
      end = begin;
    }
    for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
      item = Stmt::loop(LoopKind::Grid, *loop, item);
    return item;
  }

 private:
  const Dim& extent(const Stage& stage, std::size_t loop) const {
    return formula_.variable(stage.axes[loop]).extent;
  }

  // Loops are as long as those of the others, but for the one along which stages follow each other.
  bool lies_beside(const Stage& stage) {
    if (stages_.empty()) return true;
    if (stage.axes.size() != stages_.front()->axes.size()) return false;
    std::size_t along = along_;
    bool chosen = chosen_;
    for (std::size_t i = 0; i < stage.axes.size(); ++i) {
      if (extent(stage, i) == extent(*stages_.front(), i) || (chosen && i == along)) continue;
      if (chosen) return false;
      chosen = true;
      along = i;
    }
    along_ = along;
    chosen_ = chosen;
    return true;
  }

  // Whether one of the two needs what the other writes, or they may write the same elements.
  bool waits(const Stage& stage) const {
    const std::set<te::BufferId> reads = read_by(stage);
    return std::ranges::any_of(stages_, [&](const Stage* other) {
      return reads.contains(other->target) || read_by(*other).contains(stage.target) ||
             (other->target == stage.target && !apart(*other, stage));
    });
  }

  // Whether two stages write different parts of their target.
  bool apart(const Stage& a, const Stage& b) const {
    const auto of_a = te::PositionMap::of(formula_, a.store, a.axes);
    const auto of_b = te::PositionMap::of(formula_, b.store, b.axes);
    if (!of_a || !of_b) return false;
    auto before = [](const te::PositionMap& one, const te::PositionMap& other, std::size_t dimension) {
      const Dim gap = other.offset(dimension) - one.offset(dimension) - one.extent(dimension);
      return gap.is_constant() && gap.constant() >= 0;
    };
    for (std::size_t d = 0; d < a.store.size(); ++d) {
      if (before(*of_a, *of_b, d) || before(*of_b, *of_a, d)) return true;
    }
    return false;
  }

  bool takes_vectors(const Stage& stage) const {
    const VarId last = stage.axes.back();
    const auto step = lowering_.stride(stage.target, stage.store, last);
    return has_vectors(lowering_.target(), formula_.buffer(stage.target).dtype) && step && step->is(1) &&
           te::divides(Dim(kSideLanes), formula_.variable(last).extent);
  }

  Stmt element(const Stage& stage, const std::vector<VarId>& grid, const Dim& begin, bool vectors) {
    const VarId lane = lowering_.loop("v", kSideLanes);
    Substitution bound;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      Expr at = Expr::variable(grid[i]);
      if (i == along_) at = at - Expr::size(begin);
      if (vectors && i + 1 == grid.size()) at = at * Expr::index(kSideLanes) + Expr::variable(lane);
      bound[stage.axes[i].index] = at;
    }
    Lowering::Body value = lowering_.body(stage.body, bound);
    if (!value.checks.empty()) return {};
    Stmt store = lowering_.store(stage, bound, std::move(value));
    return vectors ? Stmt::loop(LoopKind::Vector, lane, store) : store;
  }

  Lowering& lowering_;
  const te::Formula& formula_;
  std::vector<const Stage*> stages_;
  std::size_t along_ = 0;
  bool chosen_ = false;  // the loops differ
};

}  // namespace

kir::Stmt lower_horizontally_fused(Lowering& lowering, std::span<const te::Stage> stages,
                                   std::size_t& taken) {
  HorizontallyFused made(lowering);
  while (made.size() < stages.size() && made.take(stages[made.size()])) continue;
  taken = made.size();
  return taken > 1 ? made.lower() : Stmt();
}

}  // namespace xyntra
