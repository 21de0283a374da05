// Rows for GPUs: a group of threads does the same row of every stage of a formula. Values between the stages stay in shared
// memory where they fit, what a row has one of in registers of every thread. Where threads go along a row alike in all stages, each
// keeps its elements: those between stages, and those of inputs that several stages read. Where these fill the shared memory of an SM, a
// group makes rows one after another, and the next one comes while the last stage reads this. Rows that the threads of a subgroup do
// without waiting for others go several to a group.
#include <algorithm>
#include <functional>

#include "lower/gpu/contraction/lower_groups.h"
#include "lower/gpu/gpu_forms.h"
#include "lower/gpu/group_stage.h"
#include "lower/gpu/sheltered_loads.h"
#include "lower/nested_loops.h"
#include "schedule/analysis/alignment.h"
#include "schedule/analysis/shared_rows.h"
#include "schedule/analysis/waiting.h"

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
constexpr std::int64_t kElementsOfThread = 32;  // of a row, on their way together
constexpr std::int64_t kMostKept = 96;  // elements in the registers of a thread
constexpr std::int64_t kRegistersOfGroup = 32768;  // that keep elements: half of those of an SM
constexpr std::int64_t kThreadsOfRows = 128;  // of a group that has several rows

// Of a row whose threads share out its elements and nothing else, where a device says which of them run in lockstep.
std::int64_t most_threads(const Target& target) {
  return target.warp_threads > 0 ? std::max(kMostThreads, target.group_threads) : kMostThreads;
}

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
    if (!choose_threads(alignment)) return {};
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      if (group_.turns(formula_.stages[s], free_of(s, alignment)) > most_turns) return {};
    }
    place_values(alignment);
    const std::vector<Brought> brought = place_inputs(alignment);
    if (most_turns == INT64_MAX && !choose_consecutive(alignment, brought)) return {};
    place_shared(brought);
    std::vector<VarId> grid;
    std::vector<Expr> at;  // of the row, by class
    for (Alignment::Class id : rows_) {
      const std::int64_t several = id == rows_.back() ? together_ * consecutive_ : 1;
      grid.push_back(lowering_.loop(
          "row", several > 1 ? floor_div(alignment.extent(id), Dim(several)) : alignment.extent(id)));
      at.push_back(Expr::variable(grid.back()));
    }
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    const VarId of_group = lowering_.loop("y", together_);
    if (together_ > 1) at.back() = at.back() * Expr::index(together_) + Expr::variable(of_group);
    Stmt item = group_.around([&] {
      if (consecutive_ > 1) return one_after_another(brought, alignment, at);
      std::vector<Stmt> body;
      for (const Brought& input : brought) body.push_back(bring(input, at));
      body.push_back(stages(alignment, at, {}));
      return Stmt::block(std::move(body));
    });
    if (together_ > 1) item = Stmt::loop(LoopKind::Thread, of_group, item);
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
    for (const Stage& stage : formula_.stages) {
      std::int64_t length = group_.elements(stage);
      for (Alignment::Class id : rows_)
        length /= std::max<std::int64_t>(1, lowering_.size(alignment.extent(id)));
      longest_ = std::max({longest_, length, group_.terms(stage)});
      if (length > 1 && !stage.reduction.empty())
        products_ = std::max(products_, length * group_.terms(stage));
    }
  }

  // Whether the threads, and the rows that they do together, are those that the plan has, if it has any.
  bool choose_threads(const Alignment& alignment) {
    group_.lanes = lanes_of_rows();
    const std::int64_t subgroup = lowering_.target().warp_threads;
    const bool fixed = subgroup > 0 && products_ == 0 && !group_.keeps_order();
    const std::int64_t most = fixed ? most_threads(lowering_.target()) : kMostThreads;
    std::int64_t threads = 32;
    auto is_few = [&] {
      if (fixed) return threads * kElementsOfThread < longest_;
      return threads * 2 * kRowLanes <= longest_ || threads * kTermsOfThread < products_;
    };
    while (threads < most && is_few()) threads *= 2;
    Forms& forms = lowering_.forms();
    group_.threads = forms.knob("row_threads", threads);
    std::int64_t together = 1;
    if (fixed && threads <= subgroup && may_go_together(alignment, kThreadsOfRows / threads))
      together = kThreadsOfRows / threads;
    together_ = forms.knob("rows", together);
    return (fixed || group_.threads >= 32) && together_ * group_.threads <= most &&
           (together_ == 1 || (fixed && group_.threads <= subgroup && may_go_together(alignment, together_)));
  }

  // Elements that a thread takes at a time: as many as fill an access with the widest of what is read and written, if all rows come out
  // even.
  std::int64_t lanes_of_rows() const {
    if (lowering_.target().element_bits > 16) return kRowLanes;
    int widest = 16;
    for (const te::BufferInfo& buffer : formula_.buffers) {
      if (buffer.role != te::BufferRole::Temporary && lowering_.size(product(buffer.shape)) > longest_)
        widest = std::max(widest, bits_of(buffer.dtype));
    }
    std::int64_t lanes = std::max<std::int64_t>(kRowLanes, lowering_.target().vector_bits / widest);
    for (const Stage& stage : formula_.stages) {
      for (const auto* loops : {&stage.axes, &stage.reduction}) {
        for (VarId loop : *loops) {
          const Dim& extent = formula_.variable(loop).extent;
          const bool even = te::divides(Dim(lanes), extent) || !te::divides(Dim(kRowLanes), extent);
          if (!even) lanes = kRowLanes;
        }
      }
    }
    return lanes;
  }

  // Rows come out even, since threads that exchange values do so in every case, and nothing between the stages of a row is seen by the
  // threads of another.
  bool may_go_together(const Alignment& alignment, std::int64_t rows) const {
    if (rows_.empty() || !te::divides(Dim(rows), alignment.extent(rows_.back()))) return false;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      const Stage& stage = formula_.stages[s];
      const DType dtype = stage.body.dtype();
      const bool word = bits_of(dtype) == 32 || stage.reducer == te::Reducer::None;
      if (!word || group_.shared_bytes(stage, free_of(s, alignment)) > 0) return false;
      const te::BufferInfo& buffer = formula_.buffer(stage.target);
      if (buffer.role != te::BufferRole::Temporary) {
        const bool read = std::ranges::any_of(
            formula_.stages, [&](const Stage& other) { return te::reads(other, buffer.id); });
        if (read) return false;
        continue;
      }
      const std::vector<bool> kept = kept_of(buffer.id, alignment);
      if (std::ranges::any_of(kept, std::identity()) &&
          !(is_in_step(buffer, kept, alignment) && fits_registers(buffer, kept)))
        return false;
    }
    return true;
  }

  std::vector<bool> kept_of(te::BufferId buffer, const Alignment& alignment) const {
    return alignment.held(buffer, [this](Alignment::Class id) { return is_row_[id]; });
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

  static std::size_t dimension_of(const std::vector<bool>& kept) {
    return static_cast<std::size_t>(std::ranges::find(kept, true) - kept.begin());
  }

  std::int64_t elements_of_thread(const te::BufferInfo& buffer, const std::vector<bool>& kept) const {
    const std::int64_t at_once = group_.threads * group_.lanes;
    return (buffer.shape[dimension_of(kept)].constant() + at_once - 1) / at_once * group_.lanes;
  }

  bool fits_registers(const te::BufferInfo& buffer, const std::vector<bool>& kept) const {
    const std::int64_t elements = elements_of_thread(buffer, kept);
    return elements <= kMostTurns * group_.lanes &&
           kept_elements_ + elements <= std::min(kMostKept, kRegistersOfGroup / group_.threads);
  }

  void keep_in_registers(const te::BufferInfo& buffer, const std::vector<bool>& kept) {
    kept_elements_ += elements_of_thread(buffer, kept);
    lowering_.place_in_turns(buffer.id, kept, {dimension_of(kept), group_.threads, group_.lanes});
  }

  // An input that several stages read element by element: it is read once, each thread keeps its elements.
  struct Brought {
    te::BufferId buffer;
    kir::BufferId from;
    std::vector<std::optional<std::size_t>> rows;  // by dimension: which of the rows, if it is one
    std::vector<bool> kept;
    bool shared = false;  // or in registers
  };

  std::vector<Brought> place_inputs(const Alignment& alignment) {
    std::vector<Brought> all;
    if (group_.keeps_order() || !hides_waiting(lowering_.target())) return all;
    for (const te::BufferInfo& buffer : formula_.buffers) {
      if (buffer.role != te::BufferRole::Input) continue;
      auto found = reads_along_rows(buffer, alignment);
      if (!found || !is_in_step(buffer, found->kept, alignment)) continue;
      found->from = lowering_.placed(buffer.id);
      const std::int64_t bytes = buffer.shape.back().constant() * bits_of(buffer.dtype) / 8;
      if (fits_registers(buffer, found->kept)) {
        keep_in_registers(buffer, found->kept);
      } else if (together_ == 1 && bytes <= left_) {
        left_ -= bytes;
        found->shared = true;
      } else {
        continue;
      }
      all.push_back(std::move(*found));
    }
    return all;
  }

  // Several stages read it, all at the same place of a row.
  std::optional<Brought> reads_along_rows(const te::BufferInfo& buffer, const Alignment& alignment) const {
    Brought found{buffer.id, {}, {}, {}, false};
    bool alike = true;
    std::size_t readers = 0;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      bool reads = false;
      te::for_each_node(formula_.stages[s], [&](const te::ExprNode& node) {
        if (!te::is_load(node) || node.buffer != buffer.id) return;
        reads = true;
        Brought one{buffer.id, {}, {}, {}, false};
        for (const Expr& index : te::index_of(node)) {
          const bool loop = index->op == te::ExprOp::Var;
          const auto row = loop ? std::ranges::find(rows_, alignment.class_of(s, index->var)) : rows_.end();
          one.rows.push_back(row == rows_.end()
                                 ? std::nullopt
                                 : std::optional(static_cast<std::size_t>(row - rows_.begin())));
          one.kept.push_back(loop && row == rows_.end());
          alike = alike && loop;
        }
        if (found.kept.empty()) found = one;
        alike = alike && found.kept == one.kept && found.rows == one.rows;
      });
      readers += reads ? 1 : 0;
    }
    const bool along = !found.kept.empty() && found.kept.back() && std::ranges::count(found.kept, true) == 1;
    return alike && along && readers > 1 ? std::optional(found) : std::nullopt;
  }

  Stmt bring(const Brought& input, const std::vector<Expr>& at) {
    const Dim& extent = formula_.buffer(input.buffer).shape.back();
    return group_.shared_out({extent}, true, [&](const std::vector<Expr>& along, const Expr&) {
      return lowering_.bring(input.buffer, input.from, index_of(input, at, along[0]));
    });
  }

  static std::vector<Expr> index_of(const Brought& input, const std::vector<Expr>& at, const Expr& element) {
    std::vector<Expr> index;
    for (const auto& row : input.rows) index.push_back(row ? at[*row] : element);
    return index;
  }

  // ---- rows one after another, in a ring of parts: an access of every thread each

  //   copy parts 0 to stages - 1;  for r:  wait for row r; its stages, where the last one, behind each part, copies that which comes so
  //   many later to the same place
  // Parts of a row are `parts_`; those beyond are of the next one. A thread reads nothing but what it copied.
  Stmt one_after_another(const std::vector<Brought>& brought, const Alignment& alignment,
                         const std::vector<Expr>& group) {
    const Brought& input = *shared_input(brought);
    const std::int64_t ahead = (stages_ - parts_) * part_length();  // elements
    const Expr first = group.back() * Expr::index(consecutive_), row = Expr::variable(row_);
    auto at = [&](const Expr& further) {
      std::vector<Expr> place = group;
      place.back() = first + further;
      return place;
    };
    const Stmt commit = Stmt::call(kir::Intrinsic::AsyncCommit, {});
    auto copies = [&](std::int64_t which, std::int64_t length) {
      return group_.in_chunks(length, group_.lanes, [&](const Expr& element) {
        return Stmt::block({copy(input, at(Expr::index(which)), Expr::index(which), element), commit});
      });
    };
    std::vector<Stmt> before{copies(0, parts_ * part_length())};
    if (ahead > 0) before.push_back(copies(1, ahead));
    std::vector<Stmt> body{Stmt::call(kir::Intrinsic::AsyncWait, {{{}, {}, Expr::index(stages_ - parts_)}}),
                           group_.wait()};
    for (const Brought& other : brought) {
      if (!other.shared) body.push_back(bring(other, at(row)));
    }
    // What comes `ahead` elements behind is of the next row, or of the one after it.
    auto later = [&](const Expr& element, std::int64_t rows, const Expr& place, const Expr& is_there) {
      const Expr next = row + Expr::index(rows);
      const Expr there = next < Expr::index(consecutive_);
      return Stmt::branch(is_there.defined() ? there & is_there : there,
                          copy(input, at(next), next, place.defined() ? place : element));
    };
    body.push_back(stages(alignment, at(row), [&](const Expr& element) {
      if (ahead == 0) return Stmt::block({later(element, 1, {}, {}), commit});
      const Expr behind = element + Expr::index(ahead), over = behind - Expr::index(parts_ * part_length());
      return Stmt::block({later(element, 1, behind, behind < Expr::index(parts_ * part_length())),
                          later(element, 2, over, over >= Expr::index(0)), commit});
    }));
    before.push_back(Stmt::loop(LoopKind::Serial, row_, Stmt::block(std::move(body))));
    return Stmt::block(std::move(before));
  }

  // All stages of a row; `behind` the elements of the last.
  Stmt stages(const Alignment& alignment, const std::vector<Expr>& at,
              const std::function<Stmt(const Expr& first)>& behind) {
    std::vector<Stmt> body;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      Substitution bound;
      for (std::size_t r = 0; r < rows_.size(); ++r) bound[alignment.axis_of(s, rows_[r]).index] = at[r];
      if (s + 1 == formula_.stages.size()) group_.afterwards = behind;
      body.push_back(group_.lowered(formula_.stages[s], free_of(s, alignment), bound));
    }
    group_.afterwards = {};
    return Stmt::block(std::move(body));
  }

  // Elements of the group's row `which`, to where they lie in the ring.
  Stmt copy(const Brought& input, const std::vector<Expr>& at, const Expr& which, const Expr& element) const {
    const te::IndexAlgebra algebra(lowering_.kernel().variables);
    const Expr length = Expr::index(part_length());
    const Expr part = which * Expr::index(parts_) + te::floor_div(element, length);
    return Stmt::call(kir::Intrinsic::AsyncCopy, {{lowering_.placed(input.buffer),
                                                   {algebra.simplified(te::mod(part, Expr::index(stages_))),
                                                    algebra.simplified(te::mod(element, length))},
                                                   {}},
                                                  {input.from, index_of(input, at, element), {}},
                                                  {{}, {}, Expr::index(group_.lanes)}});
  }

  std::int64_t part_length() const { return group_.threads * group_.lanes; }
  static const Brought* shared_input(const std::vector<Brought>& brought) {
    const auto found = std::ranges::find_if(brought, &Brought::shared);
    return found == brought.end() ? nullptr : &*found;
  }

  void place_shared(const std::vector<Brought>& brought) {
    for (const Brought& input : brought) {
      if (!input.shared) continue;
      if (consecutive_ == 1) {
        lowering_.place(input.buffer, Scope::Shared, input.kept);
        continue;
      }
      row_ = lowering_.loop("r", consecutive_);
      lowering_.place_in_ring(
          input.buffer, Scope::Shared, input.kept,
          {dimension_of(input.kept), Expr::variable(row_) * Expr::index(parts_), stages_, part_length()});
    }
  }

  // Rows that a workgroup makes one after another; false where there cannot be as many as the plan says.
  bool choose_consecutive(const Alignment& alignment, const std::vector<Brought>& brought) {
    const Brought* input = shared_input(brought);
    if (input == nullptr || rows_.empty() || together_ > 1 ||
        std::ranges::count_if(brought, &Brought::shared) > 1)
      return true;
    const Stage& last = formula_.stages.back();
    const te::BufferInfo& buffer = formula_.buffer(input->buffer);
    const std::int64_t length = buffer.shape.back().constant(), bits = bits_of(buffer.dtype);
    const bool fits = last.reducer == te::Reducer::None && elements_of_chunk(buffer.dtype) == group_.lanes &&
                      length % part_length() == 0 &&
                      has_vectors(lowering_.target(), formula_.buffer(last.target).dtype);
    if (!fits) return true;
    Forms& forms = lowering_.forms();
    consecutive_ = forms.knob("consecutive_rows", likely_consecutive(alignment, length * bits / 8));
    if (consecutive_ == 1) return true;
    parts_ = length / part_length();
    // The next row's parts, as many as there is room for.
    const std::int64_t room = std::max<std::int64_t>(0, left_) / (part_length() * bits / 8);
    stages_ = parts_ + std::min(parts_, room);
    const std::vector<std::int64_t>& legal = find_knob(Form::GroupRows, "stages")->legal;
    while (std::ranges::find(legal, stages_) == legal.end()) --stages_;
    stages_ = forms.knob("stages", stages_);
    return stages_ >= parts_ && stages_ <= 2 * parts_ &&
           te::divides(Dim(consecutive_), alignment.extent(rows_.back()));
  }

  // Where an SM has one workgroup at a time, which would wait for its row: as many as no core takes longer for.
  std::int64_t likely_consecutive(const Alignment& alignment, std::int64_t bytes) const {
    constexpr std::int64_t kMost = 64;
    const Target& target = lowering_.target();
    if (2 * bytes <= target.shared_bytes) return 1;
    std::int64_t rows = 1, best = 1, least = INT64_MAX;
    for (Alignment::Class id : rows_) rows *= std::max<std::int64_t>(1, lowering_.size(alignment.extent(id)));
    for (std::int64_t some = 1; some <= kMost && te::divides(Dim(some), alignment.extent(rows_.back()));
         some *= 2) {
      const std::int64_t rounds = (rows / some + target.cores - 1) / target.cores * some;
      if (rounds > least) continue;
      least = rounds;
      best = some;
    }
    return best;
  }

  // A dimension that is written along rows alone is seen one turn at a time.
  void place_values(const Alignment& alignment) {
    left_ = lowering_.target().group_shared_bytes - 4 * group_.threads;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s)
      left_ -= group_.shared_bytes(formula_.stages[s], free_of(s, alignment));
    for (const Stage& stage : formula_.stages) {
      const te::BufferInfo& buffer = formula_.buffer(stage.target);
      if (lowering_.is_placed(buffer.id)) continue;
      const std::vector<bool> kept = kept_of(buffer.id, alignment);
      Dim bytes = (bits_of(buffer.dtype) + 7) / 8;
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        if (kept[d]) bytes = bytes * buffer.shape[d];
      }
      if (!group_.keeps_order() && std::ranges::none_of(kept, std::identity())) {
        group_.own.insert(buffer.id);
        lowering_.place(buffer.id, Scope::Register, kept);
        continue;
      }
      if (is_in_step(buffer, kept, alignment) && fits_registers(buffer, kept)) {
        group_.own.insert(buffer.id);
        keep_in_registers(buffer, kept);
        continue;
      }
      const bool fits = bytes.is_constant() && bytes.constant() <= std::min(left_, kMostShared);
      if (fits) {
        left_ -= bytes.constant();
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
    const std::size_t dimension = dimension_of(kept);
    const Dim& extent = buffer.shape[dimension];
    if (!extent.is_constant() || !te::divides(Dim(group_.lanes), extent)) return false;
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
  std::int64_t products_ = 0;  // terms of several long sums for each row
  std::int64_t together_ = 1;  // rows of a group
  std::int64_t consecutive_ = 1;  // rows of a group, one after another
  std::int64_t parts_ = 1, stages_ = 1;  // of a row, in shared memory
  VarId row_;  // of those
  std::int64_t kept_elements_ = 0;  // in the registers of a thread
  std::int64_t left_ = 0;  // bytes of shared memory
};

// Whether weights of attention are rounded before they are multiplied: sums cannot be corrected for larger scores then, as
// lower_group_attention.cpp does, and where queries are many, tiles of products read less than rows one by one.
bool rounds_weights(const Lowering& lowering) {
  constexpr std::int64_t kMany = 8;
  return std::ranges::any_of(lowering.formula().stages, [&](const Stage& stage) {
    const bool narrow =
        stage.kind == Stage::Kind::MapReduce && bits_of(lowering.formula().buffer(stage.target).dtype) < 32;
    if (!narrow) return false;
    const auto sides = product_sides(lowering, stage);
    return sides && lowering.size(sides->rows.extent) >= kMany &&
           lowering.size(sides->columns.extent) >= kMany;
  });
}

}  // namespace

std::int64_t most_elements_kept(const Target& target) {
  return target.warp_threads > 0 ? most_threads(target) * kElementsOfThread : INT64_MAX;
}

Stmt lower_group_rows(Lowering& lowering, const Schedule& schedule) {
  if (lowering.forms().chooses() && rounds_weights(lowering)) return {};
  return lower_rows_in_groups(lowering, schedule, INT64_MAX);
}

Stmt lower_rows_in_groups(Lowering& lowering, const Schedule& schedule, std::int64_t most_turns) {
  return RowsInGroups(lowering, keeps_order(lowering, schedule)).run(most_turns);
}

}  // namespace xyntra
