#include "lower/cpu/lower_sequence_lanes.h"

#include <algorithm>

#include "lower/lower_by_stages.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::BufferId;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

class SequenceLanes {
 public:
  SequenceLanes(Lowering& lowering, Recurrence recurrence)
      : lowering_(lowering), recurrence_(std::move(recurrence)) {}

  // Whether steps compute nothing but elements of each sequence by itself.
  bool fits() const {
    return std::ranges::all_of(recurrence_.steps, [&](const Recurrence::Step& step) {
      const Recurrence::Value* value = recurrence_.value(step.stage.target);
      return !step.sums() && step.free.empty() &&
             (value != nullptr ? value->own : !is_temporary(step.stage.target));
    });
  }

  std::vector<Stmt> run() {
    along_ = contiguous_loop();
    if (!along_) return {item(Dim(0), Dim(1), {})};
    const std::int64_t lanes = lowering_.lanes();
    const Dim& all = recurrence_.extents[*along_];
    // Long runs of memory, as long as states stay in half of the registers.
    const auto shared = [](std::int64_t turns, std::int64_t most) {
      const std::int64_t parts = (turns + most - 1) / most;
      return (turns + parts - 1) / parts;
    };
    const std::int64_t most =
        std::min<std::int64_t>(16, std::max<std::int64_t>(1, lowering_.target().vector_registers / 2));
    const std::int64_t steps = std::max<std::int64_t>(1, (lowering_.size(all) + lanes - 1) / lanes),
                       vectors = lowering_.forms().knob("vectors", shared(steps, most));
    std::vector<Stmt> made;
    Dim done = 0;
    auto some = [&](std::int64_t together) {
      const Dim many = floor_div(all - done, together * lanes);
      if (!many.is(0)) made.push_back(item(done, many, {.width = lanes, .vectors = together}));
      done = done + many * (together * lanes);
    };
    some(vectors);
    Dim rest = all - done;
    if (rest.is_constant() && !rest.is(0) && lowering_.has_masks()) {
      const std::int64_t left = (rest.constant() + lanes - 1) / lanes;
      made.push_back(item(done, Dim(1), {.width = lanes, .vectors = left, .masked = true}));
      return made;
    }
    if (vectors > 1) some(1);
    rest = all - done;
    if (rest.is(0)) return made;
    made.push_back(lowering_.has_masks() ? item(done, Dim(1), {.width = lanes, .masked = true})
                                         : item(done, rest, {}));
    return made;
  }

 private:
  bool is_temporary(BufferId buffer) const {
    return lowering_.formula().buffer(buffer).role == te::BufferRole::Temporary;
  }

  // The loop of sequences along which what is read and written in memory stands still or is contiguous; nothing where there is none.
  std::optional<std::size_t> contiguous_loop() const {
    std::optional<std::size_t> found;
    std::int64_t most = 0;
    for (std::size_t r = 0; r < recurrence_.extents.size(); ++r) {
      std::int64_t contiguous = 0;
      bool near = lowering_.size(recurrence_.extents[r]) > 1;
      for (const Recurrence::Step& step : recurrence_.steps) {
        auto look_at = [&](BufferId buffer, const std::vector<Expr>& index) {
          if (is_temporary(buffer)) return;
          const auto stride = lowering_.stride(buffer, index, step.rows[r]);
          near = near && stride && (stride->is(0) || stride->is(1));
          contiguous += near && stride->is(1) ? 1 : 0;
        };
        look_at(step.stage.target, step.stage.store);
        te::for_each_node(step.stage, [&](const te::ExprNode& node) {
          if (te::is_load(node)) look_at(node.buffer, te::index_of(node));
        });
      }
      if (!near || contiguous <= most) continue;
      most = contiguous;
      found = r;
    }
    return found;
  }

  // The sequences of a work item: vectors, of which the last may have idle lanes.
  struct Width {
    std::int64_t width = 1, vectors = 1;
    bool masked = false;
    std::int64_t all() const { return width * vectors; }
  };

  // Work items of some sequences each, `many` of them, from `first` on.
  Stmt item(const Dim& first, const Dim& many, const Width& width) {
    std::vector<VarId> grid;
    where_.clear();
    for (std::size_t r = 0; r < recurrence_.extents.size(); ++r) {
      const bool lanes = along_ == r;
      const Dim& turns = lanes ? many : recurrence_.extents[r];
      Expr at = Expr::index(0);
      if (!turns.is(1)) {
        grid.push_back(lowering_.loop("s", turns));
        at = Expr::variable(grid.back());
      }
      where_.push_back(lanes ? Expr::size(first) + at * Expr::index(width.all()) : at);
    }
    width_ = width;
    place_values();
    return in_steps(lowering_, recurrence_, std::move(grid),
                    [&](Recurrence::Part part, const Expr& now) { return steps(part, now); });
  }

  void place_values() {
    for (const Recurrence::Value& value : recurrence_.values) {
      const std::size_t rank = lowering_.formula().buffer(value.buffer).shape.size();
      std::vector<bool> kept(rank, false);
      const auto maker = std::ranges::find_if(
          recurrence_.steps, [&](const Recurrence::Step& step) { return step.stage.target == value.buffer; });
      Lowering::Window window;
      for (std::size_t d = 0; d < rank && along_ && width_.width > 1; ++d) {
        const Expr& index = maker->stage.store[d];
        if (index->op != te::ExprOp::Var || index->var != maker->rows[*along_]) continue;
        kept[d] = true;
        window = {d, where_[*along_], width_.all()};
      }
      lowering_.place_window(value.buffer, Scope::Register, kept, window);
    }
  }

  std::vector<Stmt> steps(Recurrence::Part part, const Expr& now) {
    std::vector<Stmt> made;
    for (std::int64_t vector = 0; vector < width_.vectors; ++vector) {
      for (const Recurrence::Step& step : recurrence_.steps) {
        if (step.part == part) made.push_back(one_step(step, now, vector));
      }
    }
    return made;
  }

  Stmt one_step(const Recurrence::Step& step, const Expr& now, std::int64_t vector) {
    Substitution bound;
    if (now.defined()) bound[recurrence_.time.index] = now;
    for (VarId one : step.ones) bound[one.index] = Expr::index(0);
    for (std::size_t r = 0; r < where_.size(); ++r) bound[step.rows[r].index] = where_[r];
    std::optional<VarId> lane;
    Expr place;
    if (along_ && width_.width > 1) {
      lane = lowering_.loop("l", width_.width);
      place = where_[*along_] + Expr::index(vector * width_.width) + Expr::variable(*lane);
      bound[step.rows[*along_].index] = place;
    }
    Lowering::Body value = lowering_.body(step.stage.body, bound);
    if (step.stage.finish.defined()) {
      Lowering::Body finish = lowering_.body(step.stage.finish, bound, value.value);
      value.checks.insert(value.checks.end(), finish.checks.begin(), finish.checks.end());
      value.value = std::move(finish.value);
    }
    Stmt made = lowering_.store(step.stage, bound, std::move(value));
    if (!lane) return made;
    if (width_.masked && vector + 1 == width_.vectors) {
      made = Stmt::branch(place < Expr::size(recurrence_.extents[*along_]), std::move(made));
    }
    return Stmt::loop(LoopKind::Vector, *lane, std::move(made));
  }

  Lowering& lowering_;
  const Recurrence recurrence_;
  std::optional<std::size_t> along_;  // the loop of sequences that lanes are along
  std::vector<Expr> where_;  // in its loops of sequences, the item that is made; its first lane
  Width width_;
};

}  // namespace

std::vector<Stmt> lower_sequence_lanes(Lowering& lowering, std::span<const Stage> stages,
                                       std::size_t& taken) {
  auto recurrence = Recurrence::find(lowering, stages);
  if (!recurrence) return {};
  const std::size_t length = recurrence->taken;
  SequenceLanes sequences(lowering, std::move(*recurrence));
  if (!sequences.fits()) return {};
  taken = length;
  return sequences.run();
}

}  // namespace xyntra
