// Attention on a CPU: a work item takes a block of queries of one head through all stages.
//
//   scores     register tiles, lanes along the keys; a block of rows of scores stays in the worker's scratch
//   softmax    and whatever else happens to scores, row by row, in cache
//   weighted   register tiles, lanes along the values
//
// A block of rows grows with the number of keys, never with its square. Nothing is rescaled, so the digits are those of
// the stages one after another.

#include <algorithm>

#include "lower/cpu/attention/lower_tile_block.h"
#include "lower/cpu/contraction/lower_contraction.h"
#include "lower/cpu/cpu_forms.h"
#include "lower/lower_by_stages.h"
#include "lower/lower_stage.h"
#include "schedule/analysis/alignment.h"
#include "schedule/contraction/contraction_roles.h"
#include "schedule/prepare/prepare_tiles.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kBlocks[] = {12, 8};  // queries of one; where neither comes out even, the first
constexpr std::int64_t kTail = 4;

class AttentionLowering {
 public:
  AttentionLowering(Lowering& lowering, std::size_t first, const Schedule& schedule)
      : lowering_(lowering),
        first_(first),
        schedule_(schedule),
        part_(part_of(lowering, first)),
        alignment_(part_) {}

  Stmt run() {
    // Rows that all stages share; the queries are those that only one operand of the scores depends on.
    auto form = tile_form(lowering_.formula(), stage(0), lowering_.nominal(), TileSizes::Any);
    if (form && is_paired(lowering_.formula(), *form)) tiles_ = tile_scratch(lowering_);
    std::vector<VarId> candidates = tiles_ ? form->rows : row_axes_of(lowering_, stage(0));
    for (Alignment::Class id = 0; id < alignment_.class_count(); ++id) {
      bool everywhere = alignment_.independent(id) && !alignment_.extent(id).is(1);
      for (std::size_t s = 0; s < part_.stages.size(); ++s)
        everywhere = everywhere && alignment_.axis_of(s, id).valid();
      if (!everywhere) continue;
      VarId axis = alignment_.axis_of(0, id);
      const bool query = std::ranges::find(candidates, axis) != candidates.end() && !both_factors_have(id);
      if (query && (!has_queries_ || size(id) > size(queries_))) {
        if (has_queries_) rows_.push_back(queries_);
        queries_ = id;
        has_queries_ = true;
      } else {
        rows_.push_back(id);
      }
    }
    if (!has_queries_) return {};
    for (Alignment::Class id : rows_) grid_.push_back(lowering_.loop("row", alignment_.extent(id)));
    const Dim& turns = alignment_.extent(queries_);
    if (!choose_block()) return {};
    Dim full = floor_div(turns, block_), rest = turns - full * block_;
    Stmt body;
    if (!full.is(0)) {
      VarId number = lowering_.loop("q", rest.is(0) ? full : full + 1);
      Stmt whole = block(Expr::variable(number) * Expr::index(block_), block_);
      if (!whole.defined()) return {};
      body = rest.is(0) ? whole
                        : Stmt::branch(Expr::variable(number) < Expr::size(full), whole, tail(full, rest));
      grid_.push_back(number);
    } else {
      body = tail(full, rest);
    }
    if (!body.defined()) return {};
    if (grid_.empty()) grid_.push_back(lowering_.loop("g", 1));
    for (auto loop = grid_.rbegin(); loop != grid_.rend(); ++loop)
      body = Stmt::loop(LoopKind::Grid, *loop, body);
    return body;
  }

 private:
  static te::Formula part_of(const Lowering& lowering, std::size_t first) {
    te::Formula part = lowering.formula();
    part.stages.erase(part.stages.begin(), part.stages.begin() + static_cast<std::ptrdiff_t>(first));
    return part;
  }
  const Stage& stage(std::size_t s) const { return lowering_.formula().stages[first_ + s]; }
  std::int64_t size(Alignment::Class id) const { return lowering_.size(alignment_.extent(id)); }

  // A unit for narrow factors has its own number of rows.
  bool choose_block() {
    const std::int64_t of_unit = tiles_ ? tile_block_rows(lowering_.target()) : 0;
    block_ = of_unit;
    for (std::int64_t block : kBlocks) {
      if (of_unit != 0) break;
      if (block_ == 0 || (size(queries_) % block_ != 0 && size(queries_) % block == 0)) block_ = block;
    }
    Forms& forms = lowering_.forms();
    block_ = forms.knob("query_block", block_);
    return forms.allows("query_block", of_unit == 0 || block_ == of_unit,
                        "the matrix unit takes " + std::to_string(of_unit));
  }

  // The queries that fill no block of tiles: those of half a block that begins before them, of which only they are stored. Where
  // there are not as many, one by one.
  Stmt tile_tail(const Dim& full) {
    const Dim& turns = alignment_.extent(queries_);
    const Dim rest = turns - full * block_;
    const std::int64_t half = block_ / 2;
    const Expr base = Expr::size(full * block_), second = base + Expr::index(half);
    auto one = [&](const Expr& from) { return block(Expr::size(turns - half), half, from); };
    auto both = [&] {
      Stmt low = block(base, half);
      return Stmt::block({low, one(second)});
    };
    auto single = [&] {
      VarId number = lowering_.loop("t", turns);
      return Stmt::loop(LoopKind::Serial, number, block(Expr::variable(number), 1));
    };
    if (turns.is_constant()) {
      if (turns.constant() < half) return single();
      return rest.constant() > half ? both() : one(base);
    }
    const Expr left = Expr::size(rest), tail = Expr::index(half);
    Stmt some = Stmt::branch(left > tail, both(), Stmt::branch(left > Expr::index(0), one(base)));
    return Stmt::branch(Expr::size(turns) >= tail, std::move(some), single());
  }

  // The queries that fill no block: a smaller one, or where their number is not known by fours, then one by one.
  Stmt tail(const Dim& full, const Dim& rest) {
    if (tiles_) return tile_tail(full);
    if (rest.is_constant() && rest.constant() > 0) return block(Expr::size(full * block_), rest.constant());
    const Dim& turns = alignment_.extent(queries_);
    Dim tails = floor_div(turns, kTail) - full * (block_ / kTail), singles = rest - tails * kTail;
    std::vector<Stmt> parts;
    auto add = [&](const Dim& first, const Dim& count, std::int64_t rows) {
      if (count.is(0)) return;
      VarId number = lowering_.loop("t", count);
      Stmt one = block(Expr::size(first) + Expr::variable(number) * Expr::index(rows), rows);
      parts.push_back(Stmt::loop(LoopKind::Serial, number, std::move(one)));
    };
    add(full * block_, tails, kTail);
    add(turns - singles, singles, 1);
    return Stmt::block(std::move(parts));
  }

  // All stages for the queries [first, first + count); results before `from` are not stored.
  Stmt block(const Expr& first, std::int64_t count, const Expr& from = {}) {
    place(first, count);
    std::vector<Stmt> body;
    for (std::size_t s = 0; s < part_.stages.size(); ++s) {
      Substitution bound;
      for (std::size_t r = 0; r < rows_.size(); ++r)
        bound[alignment_.axis_of(s, rows_[r]).index] = Expr::variable(grid_[r]);
      VarId axis = alignment_.axis_of(s, queries_);
      const bool result = part_.buffer(stage(s).target).role != te::BufferRole::Temporary;
      const Expr stored = result ? from : Expr();
      Stmt made = tiles_ ? lower_tile_block(lowering_, stage(s), *tiles_, bound, {axis, first, count}, stored)
                         : lower_row_block(lowering_, stage(s), schedule_, bound, {axis, first, count});
      if (!made.defined()) made = row_by_row(s, std::move(bound), axis, first, count, stored);
      body.push_back(std::move(made));
    }
    return Stmt::block(std::move(body));
  }

  // Heads that share keys (multi-query attention) but not values are rows of the scores alone.
  bool both_factors_have(Alignment::Class id) const {
    for (std::size_t s = 0; s < part_.stages.size(); ++s) {
      const Stage& one = part_.stages[s];
      if (one.reduction.empty() || one.body->op != te::ExprOp::Mul) continue;
      const VarId axis = alignment_.axis_of(s, id);
      if (std::ranges::all_of(one.body->operands,
                              [&](const Expr& factor) { return te::variables_of(factor).contains(axis); }))
        return true;
    }
    return false;
  }

  Stmt row_by_row(std::size_t s, Substitution bound, VarId axis, const Expr& first, std::int64_t count,
                  const Expr& from) {
    std::vector<VarId> free = stage(s).axes;
    std::erase(free, axis);
    for (std::size_t r = 0; r < rows_.size(); ++r) std::erase(free, alignment_.axis_of(s, rows_[r]));
    VarId row = lowering_.loop("r", count);
    bound[axis.index] = first + Expr::variable(row);
    bool keep_order = schedule_.exactness == Exactness::Exact;
    Stmt one = StageLowering(lowering_, stage(s), std::move(free), keep_order).serial(std::move(bound));
    if (from.defined()) one = Stmt::branch(first + Expr::variable(row) >= from, std::move(one));
    return Stmt::loop(LoopKind::Serial, row, std::move(one));
  }

  // What lies between the stages: one block of it, in the worker's scratch.
  void place(const Expr& first, std::int64_t count) {
    auto is_row = [this](Alignment::Class id) {
      return std::find(rows_.begin(), rows_.end(), id) != rows_.end();
    };
    for (const Stage& one : part_.stages) {
      const te::BufferInfo& buffer = part_.buffer(one.target);
      if (buffer.role != te::BufferRole::Temporary) continue;
      const std::vector<bool> kept = alignment_.held(buffer.id, is_row);
      Lowering::Window window{buffer.shape.size(), first, count};
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        std::vector<Alignment::Class> along = alignment_.written_along(buffer.id, d);
        if (along.size() == 1 && along[0] == queries_) window.dimension = d;
      }
      lowering_.place_window(buffer.id, Scope::Shared, kept, window);
    }
  }

  Lowering& lowering_;
  std::size_t first_;
  const Schedule& schedule_;
  te::Formula part_;
  Alignment alignment_;
  std::vector<Alignment::Class> rows_;
  Alignment::Class queries_ = 0;
  bool has_queries_ = false;
  std::int64_t block_ = 0;
  std::optional<TileScratch> tiles_;
  std::vector<VarId> grid_;
};

}  // namespace

// What is made ready first, then blocks of queries.
Stmt lower_query_blocks(Lowering& lowering, const Schedule& schedule) {
  const te::Formula& formula = lowering.formula();
  std::size_t first = 0;  // the scores: the first sum
  while (first < formula.stages.size() && formula.stages[first].reducer != te::Reducer::Sum) ++first;
  if (first == formula.stages.size()) return {};
  for (std::size_t s = 0; s < first; ++s) {
    te::BufferId made = formula.stages[s].target;
    if (!lowering.is_placed(made)) lowering.place(made, Scope::Workspace);
  }
  std::vector<Stmt> phases;
  for (std::size_t s = 0; s < first; ++s) {
    std::vector<Stmt> made = lower_loops(lowering, formula.stages[s], schedule.exactness == Exactness::Exact);
    phases.insert(phases.end(), made.begin(), made.end());
  }
  phases.push_back(AttentionLowering(lowering, first, schedule).run());
  return phases.back().defined() ? Stmt::block(std::move(phases)) : Stmt();
}

}  // namespace xyntra
