#include "schedule/analysis/waiting.h"

#include <algorithm>

#include "schedule/choose.h"
#include "schedule/schedule_rows.h"
#include "te/compose/compose.h"
#include "te/index/index.h"
#include "te/walk.h"

namespace xyntra {

using te::Expr;
using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kThreads = 256;  // of a group that shares out a row
constexpr std::int64_t kVectorElements = 4;
constexpr std::int64_t kManyGroups = 512;
constexpr std::int64_t kTurnNs = 160;  // a load that is waited for
constexpr std::int64_t kLongSum = 64;
constexpr std::int64_t kResults = 16;  // of a thread, one after another
constexpr std::int64_t kManyThreads = 32768;
constexpr std::int64_t kOperationNs = 12;
constexpr std::int64_t kDeviceLaunchNs = 4000;

class Waiting {
 public:
  Waiting(const te::Formula& formula, const SymbolBindings& nominal) : formula_(formula), algebra_(formula) {
    options_.nominal = nominal;
  }

  // Every stage goes over its part of a row in turns, a group of threads at a time.
  std::int64_t of_rows() const {
    std::int64_t groups = kManyGroups;
    for (const Stage& stage : formula_.stages) {
      if (count(stage.reduction) >= kLongSum) groups = std::min(groups, count(stage.axes));
    }
    if (groups >= kManyGroups) return of_columns();
    std::int64_t turns = 0;
    for (const Stage& stage : formula_.stages) {
      const std::int64_t together = std::max<std::int64_t>(1, groups) * kThreads * lanes_of(stage);
      turns += (count(stage.axes) * count(stage.reduction) + together - 1) / together;
    }
    return turns * kTurnNs;
  }

  // Sums down columns, and what is made of them: a thread has a column of every stage, one element after another.
  std::int64_t of_columns() const {
    const auto sum = std::ranges::find_if(
        formula_.stages, [&](const Stage& stage) { return count(stage.reduction) >= kLongSum; });
    if (formula_.stages.size() < 2 || sum == formula_.stages.end() || !goes_down(*sum)) return 0;
    const std::int64_t columns = count(sum->axes);
    if (columns >= kManyThreads) return 0;
    std::int64_t turns = 0;
    for (const Stage& stage : formula_.stages)
      turns += count(stage.axes) * count(stage.reduction) / std::max<std::int64_t>(1, columns);
    return turns * kTurnNs;
  }

  // Functions of results that a thread has several of.
  std::int64_t of_functions() const {
    const Stage& last = formula_.stages.back();
    if (!last.finish.defined() || count(last.axes) / kResults >= kManyThreads) return 0;
    return kResults * te::work_of(last.finish) * kOperationNs;
  }

 private:
  std::int64_t count(const std::vector<VarId>& loops) const {
    std::int64_t all = 1;
    for (VarId loop : loops)
      all = std::min<std::int64_t>(INT64_MAX / 4096 / 4096, all) *
            std::clamp<std::int64_t>(xyntra::nominal(formula_.variable(loop).extent, options_), 0, 1 << 20);
    return all;
  }

  // Whether something is read along the last axis of the results, and nothing along the sum.
  bool goes_down(const Stage& stage) const {
    if (stage.axes.empty()) return false;
    auto reads_along = [&](VarId loop) {
      return te::any_load(stage.body, [&](const te::ExprNode& load) {
        const te::LinearIndex::Term* term = position_of(load).find(loop);
        return term != nullptr && term->coefficient.is(1);
      });
    };
    return reads_along(stage.axes.back()) && std::ranges::none_of(stage.reduction, reads_along);
  }

  te::LinearIndex position_of(const te::ExprNode& load) const {
    Expr position = Expr::index(0);
    const Shape& shape = formula_.buffer(load.buffer).shape;
    const std::vector<Expr> index = te::index_of(load);
    for (std::size_t d = 0; d < index.size(); ++d) position = position * Expr::size(shape[d]) + index[d];
    return algebra_.linear(position);
  }

  // Vectors, where all that is read is contiguous or invariant along the innermost loop.
  std::int64_t lanes_of(const Stage& stage) const {
    const std::vector<VarId>& loops = stage.reduction.empty() ? stage.axes : stage.reduction;
    if (loops.empty() || count({loops.back()}) % kVectorElements != 0) return 1;
    const bool plain = !te::any_load(
        stage.body, [&](const te::ExprNode& load) { return !is_plain(position_of(load), loops.back()); });
    return plain ? kVectorElements : 1;
  }
  static bool is_plain(const te::LinearIndex& position, VarId loop) {
    return std::ranges::all_of(position.terms, [loop](const te::LinearIndex::Term& term) {
      if (term.atom->op == te::ExprOp::Var) return term.atom->var != loop || term.coefficient.is(1);
      return !te::variables_of(term.atom).contains(loop);
    });
  }

  const te::Formula& formula_;
  te::IndexAlgebra algebra_;
  ChooseOptions options_;
};

}  // namespace

bool hides_waiting(const Target& target) {
  return target.kind != TargetKind::Cpu && target.core_threads > target.group_threads;
}

std::int64_t waiting_ns(const te::Formula& formula, const Schedule& schedule, const SymbolBindings& nominal) {
  if (formula.stages.empty()) return 0;
  const Waiting waiting(formula, nominal);
  switch (row_of(schedule.kind).waits) {
    case ScheduleRow::Waits::Nowhere: return 0;
    case ScheduleRow::Waits::InRows: return waiting.of_rows();
    case ScheduleRow::Waits::InFunctions: return waiting.of_functions();
  }
  return 0;
}

std::int64_t by_device_ns(const Target& target, std::int64_t floor_ns, std::int64_t waiting) {
  return kDeviceLaunchNs + std::max<std::int64_t>(floor_ns - target.launch_ns, 0) + waiting;
}

}  // namespace xyntra
