#include "lower/cpu/lower_sequence_items.h"

#include <algorithm>

#include "lower/cpu/contraction/lower_contraction.h"
#include "lower/lower_by_stages.h"
#include "lower/lower_stage.h"
#include "schedule/contraction/contraction_tiling.h"

namespace xyntra {

using kir::LoopKind;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

class SequenceItems {
 public:
  SequenceItems(Lowering& lowering, const Schedule& schedule, Recurrence recurrence)
      : lowering_(lowering), schedule_(schedule), recurrence_(std::move(recurrence)) {
    look_at_sums();
  }

  // Without a product there is nothing that a tile gains: lanes then run along the sequences.
  bool has_tiles() const { return has_tiles_; }

  std::vector<Stmt> run() {
    const std::int64_t rows = lowering_.forms().knob("rows", rows_);
    if (!shares_) return {item({}, Dim(1), 1)};
    const Dim &all = recurrence_.extents.back(), full = floor_div(all, rows), rest = all - full * rows;
    std::vector<Stmt> made;
    if (!full.is(0)) made.push_back(item(Dim(0), full, rows));
    if (rest.is(0)) return made;
    const bool together = rest.is_constant();
    made.push_back(item(full * rows, together ? Dim(1) : rest, together ? rest.constant() : 1));
    return made;
  }

 private:
  // Whether the last loop of sequences has the same weights for all of them, and how many a work item should have.
  void look_at_sums() {
    shares_ = !recurrence_.extents.empty();
    for (const Recurrence::Step& step : recurrence_.steps) {
      if (!step.sums()) continue;
      const auto roles = contraction_roles(lowering_, step.stage);
      if (!roles) continue;
      has_tiles_ = true;
      shares_ = shares_ && !step.rows.empty() &&
                std::ranges::find(roles->rows, step.rows.back()) != roles->rows.end();
    }
    if (!shares_) return;
    const std::int64_t all = std::max<std::int64_t>(1, lowering_.size(recurrence_.extents.back()));
    tallest_ = std::max<std::int64_t>(1, knob_of(schedule_, "tile_rows"));
    const std::int64_t items = (all + tallest_ - 1) / tallest_;
    rows_ = std::min<std::int64_t>((all + items - 1) / items,
                                   find_knob(Form::SequenceItems, "rows")->legal.back());
  }

  // `count` of the last loop's sequences from first + rows * i on, for each i < many.
  Stmt item(const Dim& first, const Dim& many, std::int64_t rows) {
    std::vector<VarId> grid;
    outer_.clear();
    for (std::size_t r = 0; r + (shares_ ? 1 : 0) < recurrence_.extents.size(); ++r) {
      grid.push_back(lowering_.loop("s", recurrence_.extents[r]));
      outer_.push_back(Expr::variable(grid.back()));
    }
    first_ = Expr::size(first);
    count_ = rows;
    if (!many.is(1)) {
      grid.push_back(lowering_.loop("b", many));
      first_ = first_ + Expr::variable(grid.back()) * Expr::index(rows);
    }
    return in_steps(lowering_, recurrence_, std::move(grid),
                    [&](Recurrence::Part part, const Expr& now) { return steps(part, now); });
  }

  std::vector<Stmt> steps(Recurrence::Part part, const Expr& now) {
    std::vector<Stmt> made;
    for (const Recurrence::Step& step : recurrence_.steps) {
      if (step.part == part) made.push_back(one_step(step, now));
    }
    return made;
  }

  Stmt one_step(const Recurrence::Step& step, const Expr& now) {
    Substitution bound;
    if (now.defined()) bound[recurrence_.time.index] = now;
    for (VarId one : step.ones) bound[one.index] = Expr::index(0);
    for (std::size_t r = 0; r < outer_.size(); ++r) bound[step.rows[r].index] = outer_[r];
    if (step.sums()) {
      const VarId sequence = shares_ ? step.rows.back() : VarId();
      const std::int64_t tiles = (count_ + tallest_ - 1) / tallest_, even = count_ % tiles == 0 ? tiles : 1;
      Stmt tile = lower_row_block(lowering_, step.stage, schedule_, bound,
                                  {.axis = sequence, .first = first_, .count = count_ / even, .tiles = even});
      if (tile.defined()) return tile;
    }
    const bool keep_order = schedule_.exactness == Exactness::Exact;
    const StageLowering loops(lowering_, step.stage, step.free, keep_order);
    if (!shares_) return loops.serial(bound);
    if (count_ == 1) {
      bound[step.rows.back().index] = first_;
      return loops.serial(bound);
    }
    const VarId row = lowering_.loop("r", count_);
    bound[step.rows.back().index] = first_ + Expr::variable(row);
    return Stmt::loop(LoopKind::Serial, row, loops.serial(bound));
  }

  Lowering& lowering_;
  const Schedule& schedule_;
  const Recurrence recurrence_;
  bool has_tiles_ = false;  // sums of a step are register tiles
  bool shares_ = false;  // work items take several of the last loop's sequences
  std::int64_t rows_ = 1, tallest_ = 1;  // sequences of a work item, and of a register tile at most
  std::vector<Expr> outer_;  // where the other loops of sequences are, in the item that is made
  Expr first_;
  std::int64_t count_ = 1;
};

}  // namespace

std::vector<Stmt> lower_sequence_items(Lowering& lowering, const Schedule& schedule,
                                       std::span<const Stage> stages, std::size_t& taken) {
  auto recurrence = Recurrence::find(lowering, stages);
  if (!recurrence) return {};
  const std::size_t length = recurrence->taken;
  SequenceItems items(lowering, schedule, std::move(*recurrence));
  if (!items.has_tiles()) return {};
  taken = length;
  return items.run();
}

}  // namespace xyntra
