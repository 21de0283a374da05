#include "schedule/recurrence.h"

#include <algorithm>

#include "te/walk.h"

namespace xyntra {

using te::BufferId;
using te::BufferRole;
using te::Expr;
using te::Stage;
using te::VarId;

namespace {

bool is_map(const Stage& stage) {
  return stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::None;
}

// What was next becomes the state, by the loops of the stage that made it; nothing where several did.
std::optional<Stage> carrying(const te::Formula& formula, const Stage& scan, const te::Carried& carried) {
  const auto made_by = [&](const Stage& stage) { return stage.target == carried.next; };
  if (std::ranges::count_if(scan.stages, made_by) != 1) return std::nullopt;
  const Stage& maker = *std::ranges::find_if(scan.stages, made_by);
  Stage stage;
  stage.target = carried.state;
  stage.axes = maker.axes;
  stage.store = maker.store;
  stage.body = Expr::load(carried.next, formula.buffer(carried.next).dtype, maker.store);
  return stage;
}

class Finder {
 public:
  Finder(const AccessAnalysis& analysis, std::span<const Stage> stages)
      : formula_(analysis.formula()), stages_(stages) {}

  std::optional<Recurrence> run() {
    if (!find_parts()) return std::nullopt;
    // Two steps one behind the other: the second reads what the first has carried.
    te::Formula unrolled = formula_;
    unrolled.stages = before_;
    for (int i = 0; i < 2; ++i) unrolled.stages.insert(unrolled.stages.end(), step_.begin(), step_.end());
    unrolled.stages.insert(unrolled.stages.end(), after_.begin(), after_.end());
    const Alignment alignment(unrolled);
    std::vector<Alignment::Class> rows;
    for (Alignment::Class id = 0; id < alignment.class_count(); ++id) {
      bool everywhere = alignment.independent(id) && !alignment.extent(id).is(1);
      for (std::size_t s = 0; s < unrolled.stages.size(); ++s)
        everywhere = everywhere && alignment.axis_of(s, id).valid();
      if (everywhere) rows.push_back(id);
    }
    // The loop whose weights are the same for all sequences comes last: a workgroup takes several of it.
    for (Alignment::Class id : rows) found_.extents.push_back(alignment.extent(id));
    std::size_t at = 0;
    auto add = [&](const std::vector<Stage>& some, Recurrence::Part part) {
      for (const Stage& stage : some) {
        Recurrence::Step made{stage, part, {}, {}, {}};
        for (Alignment::Class id : rows) made.rows.push_back(alignment.axis_of(at, id));
        for (VarId axis : stage.axes) {
          if (std::ranges::find(made.rows, axis) != made.rows.end()) continue;
          (formula_.variable(axis).extent.is(1) ? made.ones : made.free).push_back(axis);
        }
        found_.steps.push_back(std::move(made));
        ++at;
      }
      if (part == Recurrence::Part::Step) at += some.size();
    };
    add(before_, Recurrence::Part::Before);
    add(step_, Recurrence::Part::Step);
    add(after_, Recurrence::Part::After);
    if (!find_elements()) return std::nullopt;
    find_values(alignment, rows);
    put_sequences_last();
    return found_;
  }

 private:
  bool is_temporary(BufferId buffer) const { return formula_.buffer(buffer).role == BufferRole::Temporary; }

  // A part of a value that lasts, such as all hidden states: it lies in memory.
  bool is_written_by_time(const Stage& stage) const {
    return std::ranges::any_of(
        stage.store, [&](const Expr& index) { return te::variables_of(index).contains(found_.time); });
  }

  bool find_parts() {
    const auto scan = std::ranges::find_if(stages_, [](const Stage& stage) { return !is_map(stage); });
    if (scan == stages_.end() || scan->kind != Stage::Kind::Scan) return false;
    auto is_state = [&](BufferId buffer) {
      return std::ranges::any_of(scan->carried, [&](const te::Carried& one) { return one.state == buffer; });
    };
    before_.assign(stages_.begin(), scan);
    if (before_.size() != scan->carried.size() ||
        !std::ranges::all_of(before_, [&](const Stage& stage) { return is_state(stage.target); }))
      return false;
    std::set<BufferId> made, written;  // what each step makes anew, and what it writes a part of
    found_.time = scan->step;
    for (const Stage& stage : scan->stages) {
      const bool plain =
          is_map(stage) || (stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::Sum);
      if (!plain || bits_of(formula_.buffer(stage.target).dtype) < 8) return false;
      step_.push_back(stage);
      (is_written_by_time(stage) ? written : made).insert(stage.target);
    }
    for (const te::Carried& carried : scan->carried) {
      auto stage = carrying(formula_, *scan, carried);
      if (!stage) return false;
      step_.push_back(std::move(*stage));
      made.insert(carried.state);
    }
    auto reads_any = [](const Stage& stage, const std::set<BufferId>& buffers) {
      return te::any_load(stage, [&](const te::ExprNode& load) { return buffers.contains(load.buffer); });
    };
    auto ends = [&](const Stage& stage) {
      return is_map(stage) && reads_any(stage, made) && !reads_any(stage, written) &&
             !is_temporary(stage.target);
    };
    auto last = scan + 1;
    for (; last != stages_.end() && ends(*last); ++last) after_.push_back(*last);
    if (std::ranges::any_of(step_, [&](const Stage& stage) { return reads_any(stage, written); }))
      return false;
    // What is made on chip is read by nobody else, and results are not read back.
    for (BufferId buffer : made) {
      const bool back = !is_temporary(buffer) && std::ranges::any_of(step_, [&](const Stage& stage) {
        return te::reads(stage, buffer);
      });
      const bool elsewhere = std::ranges::any_of(formula_.stages, [&](const Stage& stage) {
        const bool taken = std::any_of(stages_.begin(), last, [&](const Stage& one) {
          return one.kind == stage.kind && one.target == stage.target && one.step == stage.step;
        });
        return !taken && is_temporary(buffer) && te::reads(stage, buffer);
      });
      if (back || elsewhere) return false;
    }
    found_.taken = static_cast<std::size_t>(last - stages_.begin());
    return true;
  }

  // All that is computed one by one has the same elements; sums may have others.
  bool find_elements() {
    const Recurrence::Step* first = nullptr;
    for (const Recurrence::Step& step : found_.steps) {
      for (const auto* loops : {&step.free, &step.stage.reduction}) {
        for (VarId loop : *loops) {
          const Dim& extent = formula_.variable(loop).extent;
          if (!extent.is_constant() || extent.constant() < 1) return false;
        }
      }
      if (step.sums()) continue;
      std::vector<Dim> extents;
      for (VarId loop : step.free) extents.push_back(formula_.variable(loop).extent);
      if (first == nullptr) found_.elements = extents;
      first = &step;
      if (extents != found_.elements) return false;
    }
    return first != nullptr;
  }

  // Where threads read nothing of it but what they wrote: every index is a loop that all share out alike.
  bool is_own(BufferId buffer) const {
    auto is_place = [&](const Recurrence::Step& step, const std::vector<Expr>& index) {
      std::size_t next = 0;
      for (const Expr& one : index) {
        if (one->op == te::ExprOp::Const) continue;
        if (one->op != te::ExprOp::Var) return false;
        if (next < step.free.size() && one->var == step.free[next]) {
          ++next;
        } else if (std::ranges::find(step.rows, one->var) == step.rows.end() &&
                   std::ranges::find(step.ones, one->var) == step.ones.end()) {
          return false;
        }
      }
      return next == step.free.size();
    };
    for (const Recurrence::Step& step : found_.steps) {
      bool own = step.stage.target != buffer || (!step.sums() && is_place(step, step.stage.store));
      te::for_each_node(step.stage, [&](const te::ExprNode& node) {
        if (te::is_load(node) && node.buffer == buffer)
          own = own && !step.sums() && node.op == te::ExprOp::Load && is_place(step, te::index_of(node));
      });
      if (!own) return false;
    }
    return true;
  }

  void find_values(const Alignment& alignment, const std::vector<Alignment::Class>& rows) {
    for (const Recurrence::Step& step : found_.steps) {
      const BufferId buffer = step.stage.target;
      if (!is_temporary(buffer) || is_written_by_time(step.stage) || found_.value(buffer) != nullptr)
        continue;
      const auto is_row = [&](Alignment::Class id) { return std::ranges::find(rows, id) != rows.end(); };
      found_.values.push_back({buffer, is_own(buffer), alignment.held(buffer, is_row)});
    }
  }

  void put_sequences_last() {
    for (std::size_t r = 0; r < found_.extents.size(); ++r) {
      const bool shared = std::ranges::all_of(found_.steps, [&](const Recurrence::Step& step) {
        if (!step.sums() || step.stage.body->op != te::ExprOp::Mul) return true;
        return std::ranges::any_of(step.stage.body->operands, [&](const Expr& factor) {
          return found_.is_steady(factor, step.rows[r]);
        });
      });
      if (!shared) continue;
      std::rotate(found_.extents.begin() + static_cast<std::ptrdiff_t>(r),
                  found_.extents.begin() + static_cast<std::ptrdiff_t>(r) + 1, found_.extents.end());
      for (Recurrence::Step& step : found_.steps)
        std::rotate(step.rows.begin() + static_cast<std::ptrdiff_t>(r),
                    step.rows.begin() + static_cast<std::ptrdiff_t>(r) + 1, step.rows.end());
      return;
    }
  }

  const te::Formula& formula_;
  const std::span<const Stage> stages_;
  std::vector<Stage> before_, step_, after_;
  Recurrence found_;
};

// ---- how a workgroup shares a step out

constexpr std::int64_t kLanes = 4;  // f32 elements of one access: 16 bytes
constexpr std::int64_t kWarp = 32, kSchedulers = 4;  // warps that an SM issues from at once

// Cycles that a workgroup needs for a step, as far as tiles differ in them.
class StepCycles {
 public:
  StepCycles(const AccessAnalysis& analysis, const Recurrence& recurrence, bool keep_order)
      : target_(analysis.target()), recurrence_(recurrence) {
    for (const Recurrence::Step& step : recurrence.steps) {
      if (!step.sums()) continue;
      const Sum sum{recurrence.count(analysis.formula(), step.free),
                    recurrence.count(analysis.formula(), step.stage.reduction),
                    recurrence.steady_factor(step).has_value()};
      sums_.push_back(sum);
      lanes_ = sum.terms % kLanes == 0 && step.stage.reduction.size() == 1 ? lanes_ : 1;
    }
    if (keep_order) lanes_ = 1;
    for (const Dim& extent : recurrence.elements) elements_ *= extent.constant();
  }

  std::int64_t lanes() const { return lanes_; }
  std::int64_t elements() const { return elements_; }
  // A thread's part of every sum is as long.
  bool come_out_even(std::int64_t slices) const {
    return std::ranges::all_of(sums_, [&](const Sum& sum) { return sum.terms % (slices * lanes_) == 0; });
  }

  // Weights of one thread, and as many of them as its registers have room for.
  std::int64_t weights(const RecurrenceTile& tile) const {
    std::int64_t all = 0;
    for (const Sum& sum : sums_) {
      if (sum.steady) all += iterations(sum, tile) * sum.terms / tile.slices;
    }
    return all;
  }
  std::int64_t room(const RecurrenceTile& tile) const {
    constexpr std::int64_t kOthers = 64, kOfRow = 6, kOfElement = 12, kMostOfThread = 255, kWithoutTable = 32;
    const std::int64_t turns = (tile.rows * elements_ + tile.threads - 1) / tile.threads;
    if (target_.warp_threads == 0) return kWithoutTable;  // how registers are shared out is not known
    const std::int64_t all = std::min(kMostOfThread, target_.register_bytes / 4 / tile.threads);
    return all - kOthers - kOfRow * tile.rows - kOfElement * (turns - 1);
  }

  // `groups`: workgroups that run at the same time.
  std::int64_t operator()(const RecurrenceTile& tile, std::int64_t groups) const {
    constexpr std::int64_t kFunctions = 700, kBarrier = 40, kExchange = 30, kIssueOfFunctions = 300;
    constexpr std::int64_t kOfSm = 64, kOfDevice = 3000;  // bytes of L2 in a cycle
    constexpr std::int64_t kLinePerCycle = 4;  // bytes of each line that a warp reads a part of
    const std::int64_t warps = (tile.threads + kWarp - 1) / kWarp;
    const std::int64_t queue = (warps + kSchedulers - 1) / kSchedulers;
    const std::int64_t turns = (tile.rows * elements_ + tile.threads - 1) / tile.threads;
    std::int64_t cycles = kBarrier + kFunctions + std::max<std::int64_t>(0, turns - 1) * kIssueOfFunctions;
    std::int64_t exchanges = 0;
    for (std::int64_t slices = 1; slices < tile.slices; slices *= 2) ++exchanges;
    for (const Sum& sum : sums_) {
      const std::int64_t each = iterations(sum, tile) * (sum.terms / tile.slices);
      const std::int64_t instructions =
          tile.rows * (each + each / lanes_ + 2 * exchanges * iterations(sum, tile));
      const std::int64_t chain = 4 * each / lanes_ + kExchange * exchanges;
      cycles += kBarrier + std::max(instructions * queue, chain);
    }
    const std::int64_t streamed = std::max<std::int64_t>(0, weights(tile) - tile.kept);
    const std::int64_t bytes = std::min({kOfSm, kOfDevice / groups, kLinePerCycle * lanes_ * tile.slices});
    return cycles + streamed * tile.threads * 4 / std::max<std::int64_t>(1, bytes);
  }

  std::int64_t shared_bytes(const te::Formula& formula, std::int64_t rows) const {
    std::int64_t bytes = 0;
    for (const Recurrence::Value& value : recurrence_.values) {
      if (value.own) continue;
      const te::BufferInfo& buffer = formula.buffer(value.buffer);
      std::int64_t elements = rows;
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        if (value.kept[d] && buffer.shape[d].is_constant()) elements *= buffer.shape[d].constant();
      }
      bytes += elements * 4;
    }
    return bytes;
  }

 private:
  struct Sum {
    std::int64_t results = 1, terms = 1;
    bool steady = false;
  };
  static std::int64_t iterations(const Sum& sum, const RecurrenceTile& tile) {
    return (sum.results + tile.results_at_once() - 1) / tile.results_at_once();
  }

  const Target& target_;
  const Recurrence& recurrence_;
  std::vector<Sum> sums_;
  std::int64_t lanes_ = kLanes, elements_ = 1;
};

// All weights where there is room for them, as many as there is room for elsewhere.
std::int64_t weights_to_keep(std::int64_t weights, std::int64_t room) {
  std::int64_t found = 0;
  for (const std::int64_t value : find_knob(Form::BatchRecurrence, "kept")->legal) {
    if (value <= room || (weights <= room && found < weights)) found = value;
    if (found >= weights) break;
  }
  return found;
}

}  // namespace

std::optional<Recurrence> Recurrence::find(const AccessAnalysis& analysis, std::span<const Stage> stages) {
  return Finder(analysis, stages).run();
}

const Recurrence::Value* Recurrence::value(BufferId buffer) const {
  const auto found = std::ranges::find(values, buffer, &Value::buffer);
  return found == values.end() ? nullptr : &*found;
}

bool Recurrence::is_steady(const Expr& expr, VarId sequence) const {
  const std::set<VarId> loops = te::variables_of(expr);
  if (loops.contains(time) || (sequence.valid() && loops.contains(sequence))) return false;
  return !te::any_load(expr, [&](const te::ExprNode& load) {
    return std::ranges::any_of(steps, [&](const Step& step) { return step.stage.target == load.buffer; });
  });
}

std::optional<std::size_t> Recurrence::steady_factor(const Step& step) const {
  if (step.stage.body->op != te::ExprOp::Mul) return std::nullopt;
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (is_steady(step.stage.body->operands[i], step.rows.empty() ? VarId() : step.rows.back())) return i;
  }
  return std::nullopt;
}

std::int64_t Recurrence::count(const te::Formula& formula, const std::vector<VarId>& loops) const {
  std::int64_t all = 1;
  for (VarId loop : loops) all *= formula.variable(loop).extent.constant();
  return all;
}

std::optional<RecurrenceTile> choose_recurrence_tile(const AccessAnalysis& analysis,
                                                     const Recurrence& recurrence, std::int64_t exchanged,
                                                     bool keep_order, Forms& forms) {
  const StepCycles cycles(analysis, recurrence, keep_order);
  const Target& target = analysis.target();
  const std::int64_t most_threads = target.group_threads;
  std::int64_t outer = 1;
  for (std::size_t r = 0; r + 1 < recurrence.extents.size(); ++r)
    outer *= std::max<std::int64_t>(1, analysis.size(recurrence.extents[r]));
  const std::int64_t sequences =
      recurrence.extents.empty() ? 1 : std::max<std::int64_t>(1, analysis.size(recurrence.extents.back()));
  auto fits = [&](const RecurrenceTile& tile) {
    const bool exchange = tile.slices == 1 || (tile.slices <= exchanged && !keep_order);
    return exchange && tile.threads <= most_threads && tile.threads % tile.slices == 0 &&
           cycles.come_out_even(tile.slices);
  };
  RecurrenceTile tile{.lanes = cycles.lanes()};
  if (forms.chooses()) {
    std::int64_t least = INT64_MAX;
    for (const std::int64_t rows : find_knob(Form::BatchRecurrence, "rows")->legal) {
      if (rows > 1 && rows >= 2 * sequences) break;
      if (rows > 1 && cycles.shared_bytes(analysis.formula(), rows) > target.group_shared_bytes) break;
      const std::int64_t groups = outer * ((sequences + rows - 1) / rows);
      const std::int64_t waves = (groups + target.cores - 1) / target.cores;
      for (const std::int64_t threads : find_knob(Form::BatchRecurrence, "threads")->legal) {
        for (const std::int64_t slices : find_knob(Form::BatchRecurrence, "slices")->legal) {
          RecurrenceTile one{threads, rows, slices, 0, cycles.lanes()};
          if (!fits(one)) continue;
          one.kept = weights_to_keep(cycles.weights(one), cycles.room(one));
          const std::int64_t cost = waves * cycles(one, std::min(groups, target.cores));
          if (cost >= least) continue;
          least = cost;
          tile = one;
        }
      }
    }
  }
  tile.kept = forms.knob("kept", tile.kept);
  tile.rows = forms.knob("rows", tile.rows);
  tile.slices = forms.knob("slices", tile.slices);
  tile.threads = forms.knob("threads", tile.threads);
  const bool legal =
      forms.allows(
          "rows",
          tile.rows == 1 || (!recurrence.extents.empty() &&
                             cycles.shared_bytes(analysis.formula(), tile.rows) <= target.group_shared_bytes),
          "shared memory has to have room for their states") &&
      forms.allows("threads", tile.threads <= most_threads, "the target has fewer threads in a workgroup") &&
      forms.allows("slices", fits(tile), "threads of a sum come out even, and exchange values") &&
      forms.allows("kept",
                   std::min(tile.kept, cycles.weights(tile)) <= std::max<std::int64_t>(0, cycles.room(tile)),
                   "registers have no room for them");
  return legal ? std::optional(tile) : std::nullopt;
}

}  // namespace xyntra
