// Rows for GPUs: a group of threads does the same row of every stage of a formula. Values between the stages stay in shared
// memory where they fit, what a row has one of in registers of every thread; sums along the row are made in parts that
// are added up in a fixed order.
#include <algorithm>
#include <functional>
#include <set>

#include "schedule/alignment.h"
#include "schedule/lower_groups.h"
#include "schedule/product_sides.h"
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

constexpr std::int64_t kRowLanes = 4;
constexpr std::int64_t kMostShared = 8192;  // bytes of one value between stages
constexpr std::int64_t kShortRow = 8;  // shorter ones are a thread's work
constexpr std::int64_t kSmallRow = 16384;  // turns of all its stages
constexpr std::int64_t kFewResults = 16384;
constexpr std::int64_t kMostTurns = 8;  // that a thread keeps the elements of in registers
constexpr std::int64_t kFewSums = 16;  // that a thread adds up by itself
constexpr std::int64_t kLongSum = 256;  // worth a group of threads by itself
constexpr std::int64_t kSlicedSum = 64;  // worth several threads where there are fewer results than threads
constexpr std::int64_t kMostSlices = 64;
constexpr std::int64_t kTurnsAhead = 4;  // of a sliced sum, whose elements are on their way

class RowsInGroups {
 public:
  RowsInGroups(Lowering& lowering, bool keep_order)
      : lowering_(lowering), formula_(lowering.formula()), keep_order_(keep_order) {}

  Stmt run() {
    for (const Stage& stage : formula_.stages) {
      if (stage.kind != Stage::Kind::MapReduce || !is_shared_out(stage)) return {};
    }
    const Alignment alignment(formula_);
    find_rows(alignment);
    if ((rows_.empty() && !is_one_small_row()) || !is_worth_it()) return {};
    reorders_ = !keep_order_;
    place_values(alignment);
    std::vector<VarId> grid;
    for (Alignment::Class id : rows_) grid.push_back(lowering_.loop("row", alignment.extent(id)));
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    thread_ = lowering_.loop("x", threads_);
    std::vector<Stmt> body;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      const Stage& stage = formula_.stages[s];
      Substitution bound;
      for (std::size_t r = 0; r < rows_.size(); ++r)
        bound[alignment.axis_of(s, rows_[r]).index] = Expr::variable(grid[r]);
      const std::vector<VarId> free = free_of(s, alignment);
      if (reads_unseen(stage)) {
        body.push_back(barrier());
        unseen_.clear();
      }
      Stmt sliced = in_slices(stage, free, bound);
      body.push_back(sliced.defined() ? sliced : row_of(stage, free, bound));
      if (!is_own(stage)) unseen_.insert(stage.target);
    }
    Stmt item = Stmt::loop(LoopKind::Thread, thread_, Stmt::block(std::move(body)));
    for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
      item = Stmt::loop(LoopKind::Grid, *loop, item);
    return shelter_loads(lowering_.kernel(), item);
  }

  // A stage by itself: few results, each a long sum.
  Stmt long_sums(const Stage& stage) {
    std::int64_t results = 1;
    for (VarId axis : stage.axes) results *= lowering_.size(formula_.variable(axis).extent);
    const bool wanted = stage.kind == Stage::Kind::MapReduce && stage.reducer != te::Reducer::None &&
                        !keep_order_ && is_shared_out(stage) && results <= kFewResults &&
                        turns(stage) >= kLongSum;
    if (!wanted) return {};
    while (threads_ < 256 && threads_ * 2 * kRowLanes <= turns(stage)) threads_ *= 2;
    std::vector<VarId> grid;
    Substitution bound;
    for (VarId axis : stage.axes) {
      const te::Variable& variable = formula_.variable(axis);
      grid.push_back(lowering_.loop(variable.name, variable.extent));
      bound[axis.index] = Expr::variable(grid.back());
    }
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    thread_ = lowering_.loop("x", threads_);
    Stmt item = Stmt::loop(LoopKind::Thread, thread_, together(stage, std::move(bound)));
    for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
      item = Stmt::loop(LoopKind::Grid, *loop, item);
    return shelter_loads(lowering_.kernel(), item);
  }

  // A scan by one group: its threads share out what a step makes, and wait for one another after each part of it.
  Stmt scan(const Stage& stage) {
    std::int64_t work = 1, elements = 1;  // of the largest part of a step
    for (const Stage& inner : stage.stages) {
      if (inner.kind != Stage::Kind::MapReduce || !is_shared_out(inner)) return {};
      std::int64_t made = 1;
      for (VarId axis : inner.axes) made *= lowering_.size(formula_.variable(axis).extent);
      elements = std::max(elements, made);
      work = std::max(work, made * turns(inner));
    }
    if (work < kLongSum) return {};
    while (threads_ < 256 && threads_ < elements) threads_ *= 2;
    const te::Variable& step = formula_.variable(stage.step);
    const VarId group = lowering_.loop("g", 1), turn = lowering_.loop(step.name, step.extent);
    thread_ = lowering_.loop("x", threads_);
    std::vector<Stmt> body;
    for (const Stage& inner : stage.stages) {
      body.push_back(row_of(inner, inner.axes, {{stage.step.index, Expr::variable(turn)}}));
      body.push_back(barrier());
    }
    for (const te::Carried& carried : stage.carried) {  // what was next is now the state
      const te::BufferInfo& state = formula_.buffer(carried.state);
      auto move = [&](const std::vector<Expr>& index, const Expr&) {
        return Stmt::store(lowering_.placed(carried.state), index,
                           Expr::load(lowering_.placed(carried.next), state.dtype, index));
      };
      Stmt moved = state.shape.empty() ? by_one_thread(move({}, {})) : shared_out(state.shape, false, move);
      body.insert(body.end(), {std::move(moved), barrier()});
    }
    Stmt item = Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body)));
    item = Stmt::loop(LoopKind::Grid, group, Stmt::loop(LoopKind::Thread, thread_, item));
    return shelter_loads(lowering_.kernel(), item);
  }

 private:
  // Threads write single elements: two that lie in one byte are not written by two of them.
  bool is_shared_out(const Stage& stage) const { return bits_of(formula_.buffer(stage.target).dtype) >= 8; }

  // Whether other threads may still be writing what it reads.
  bool reads_unseen(const Stage& stage) const {
    bool found = false;
    te::for_each_node(stage, [&](const te::ExprNode& node) {
      found = found || (te::is_load(node) && unseen_.contains(node.buffer));
    });
    return found;
  }

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
    while (threads_ < 256 && threads_ * 2 * kRowLanes <= longest) threads_ *= 2;
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

  std::int64_t turns(const Stage& stage) const {
    std::int64_t count = 1;
    for (VarId axis : stage.reduction) count *= lowering_.size(formula_.variable(axis).extent);
    return count;
  }

  // What has no rows to share out is one: a norm of one token. One group does it sooner than several launches would.
  bool is_one_small_row() const {
    Dim work = 0;
    for (const Stage& stage : formula_.stages) {
      Dim all = 1;
      for (VarId axis : stage.axes) all = all * formula_.variable(axis).extent;
      for (VarId axis : stage.reduction) all = all * formula_.variable(axis).extent;
      work = work + all;
    }
    return formula_.stages.size() > 1 && work.is_constant() && work.constant() <= kSmallRow;
  }

  bool is_worth_it() const {
    if (formula_.stages.size() == 1) return turns(formula_.stages[0]) >= kLongSum;
    return longest_ >= kShortRow;
  }

  // A dimension that is written along rows alone is seen one turn at a time.
  void place_values(const Alignment& alignment) {
    std::int64_t left = lowering_.target().group_shared_bytes - 4 * threads_;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s)
      left -= 4 * slices_of(formula_.stages[s], free_of(s, alignment)).elements();
    for (const Stage& stage : formula_.stages) {
      const te::BufferInfo& buffer = formula_.buffer(stage.target);
      if (lowering_.is_placed(buffer.id)) continue;
      const std::vector<bool> kept =
          alignment.held(buffer.id, [this](Alignment::Class id) { return is_row_[id]; });
      Dim bytes = (bits_of(buffer.dtype) + 7) / 8;
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        if (kept[d]) bytes = bytes * buffer.shape[d];
      }
      if (!keep_order_ && std::ranges::none_of(kept, std::identity())) {
        own_.insert(buffer.id);
        lowering_.place(buffer.id, Scope::Register, kept);
        continue;
      }
      if (is_in_step(buffer, kept, alignment)) {
        own_.insert(buffer.id);
        const auto dimension = static_cast<std::size_t>(std::ranges::find(kept, true) - kept.begin());
        lowering_.place_in_turns(buffer.id, kept, {dimension, threads_, kRowLanes});
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
    if (keep_order_ || !has_vectors(buffer.dtype) || std::ranges::count(kept, true) != 1) return false;
    const auto dimension = static_cast<std::size_t>(std::ranges::find(kept, true) - kept.begin());
    const Dim& extent = buffer.shape[dimension];
    if (!extent.is_constant() || !te::divides(Dim(kRowLanes), extent) ||
        extent.constant() > kMostTurns * threads_ * kRowLanes)
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
      const bool vectors = has_vectors(sums ? stage.body.dtype() : formula_.buffer(stage.target).dtype);
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
      if (!fits || (finishes && reads(stage.finish, buffer.id))) return false;
    }
    return true;
  }

  static bool reads(const Expr& expr, te::BufferId buffer) {
    bool found = false;
    te::for_each_node(expr, [&](const te::ExprNode& node) {
      found = found || (te::is_load(node) && node.buffer == buffer);
    });
    return found;
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

  // Whether threads can take four elements at a time: they lie along one loop.
  static bool by_vectors(const Loops& loops) {
    return loops.axes.size() == 1 && te::divides(Dim(kRowLanes), loops.extent);
  }

  // Threads take turns: what(bound, lane) at every position of these loops, `lane` being 0 where elements come one by one.
  template <class What>
  Stmt shared_out(const Loops& loops, const Substitution& bound, bool vectors, What what) {
    std::vector<Dim> extents;
    for (VarId axis : loops.axes) extents.push_back(formula_.variable(axis).extent);
    return shared_out(extents, vectors, [&](const std::vector<Expr>& index, const Expr& lane) {
      Substitution inner = bound;
      for (std::size_t i = 0; i < index.size(); ++i) inner[loops.axes[i].index] = index[i];
      return what(inner, lane);
    });
  }

  // The same over an index of these extents: what(index, lane).
  template <class What>
  Stmt shared_out(const std::vector<Dim>& extents, bool vectors, What what) {
    const std::int64_t lanes = vectors ? kRowLanes : 1;
    const Dim parts = floor_div(product(extents), lanes);
    const VarId turn = lowering_.loop("i", ceil_div(parts, Dim(threads_))), lane = lowering_.loop("v", lanes);
    const Expr part = Expr::variable(turn) * Expr::index(threads_) + Expr::variable(thread_);
    const Expr position = part * Expr::index(lanes) + Expr::variable(lane);
    std::vector<Expr> index(extents.size());
    Dim stride = 1;
    for (std::size_t i = extents.size(); i-- > 0;) {
      Expr digit = stride.is(1) ? position : te::floor_div(position, Expr::size(stride));
      index[i] = i == 0 ? digit : te::mod(digit, Expr::size(extents[i]));
      stride = stride * extents[i];
    }
    Stmt body = what(index, Expr::variable(lane));
    body = Stmt::loop(vectors ? LoopKind::Vector : LoopKind::Unrolled, lane, body);
    if (!te::divides(Dim(threads_), parts)) body = Stmt::branch(part < Expr::size(parts), body);
    const Dim& turns = lowering_.kernel().variable(turn).extent;
    const bool few = turns.is_constant() && turns.constant() <= kMostTurns;
    return Stmt::loop(few ? LoopKind::Unrolled : LoopKind::Serial, turn, body);
  }

  Stmt accumulate(kir::BufferId sum, const Stage& stage, const Substitution& bound, const Expr& lane) {
    const DType dtype = stage.body.dtype();
    Lowering::Body body = lowering_.body(stage.body, bound);
    body.checks.push_back(
        Stmt::store(sum, {lane}, combined(stage.reducer, Expr::load(sum, dtype, {lane}), body.value)));
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
    Stmt body = accumulate(sum, stage, bound, Expr::index(0));
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      body = Stmt::loop(LoopKind::Serial, *loop, body);
    return body;
  }

  // The one loop of a sum whose terms are vectors along it; none where there are others.
  VarId vector_loop(const Stage& stage) const {
    VarId found;
    for (VarId axis : stage.reduction) {
      if (formula_.variable(axis).extent.is(1)) continue;
      if (found.valid()) return {};
      found = axis;
    }
    const bool vectors = found.valid() && has_vectors(stage.body.dtype()) &&
                         te::divides(Dim(kRowLanes), formula_.variable(found).extent) &&
                         comes_in_vectors(lowering_, stage.body, found);
    return vectors ? found : VarId();
  }

  // By one thread, each lane a part of the sum.
  Stmt in_vectors(kir::BufferId sum, const Stage& stage, Substitution bound, VarId along) {
    const VarId turn =
        lowering_.loop(formula_.variable(along).name, floor_div(formula_.variable(along).extent, kRowLanes));
    const VarId lane = lowering_.loop("v", kRowLanes);
    for (VarId axis : stage.reduction) bound[axis.index] = Expr::index(0);
    bound[along.index] = Expr::variable(turn) * Expr::index(kRowLanes) + Expr::variable(lane);
    return Stmt::loop(
        LoopKind::Serial, turn,
        Stmt::loop(LoopKind::Vector, lane, accumulate(sum, stage, bound, Expr::variable(lane))));
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
    const VarId along = reorders_ ? vector_loop(stage) : VarId();
    const std::int64_t lanes = along.valid() ? kRowLanes : 1;
    const kir::BufferId sum = lowering_.scratch("a", dtype, {lanes}, Scope::Register);
    std::vector<Stmt> body;
    std::vector<Expr> parts;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      body.push_back(Stmt::store(sum, {Expr::index(lane)}, identity_of(stage.reducer, dtype)));
      parts.push_back(Expr::load(sum, dtype, {Expr::index(lane)}));
    }
    body.push_back(along.valid() ? in_vectors(sum, stage, bound, along) : in_order(sum, stage, bound));
    body.push_back(finish(stage, bound, combined_in_pairs(stage.reducer, std::move(parts))));
    return Stmt::block(std::move(body));
  }

  // How several threads share out the terms of each result, where these are fewer than threads and long sums.
  struct Slices {
    std::int64_t count = 0;  // none elsewhere
    std::int64_t parts = 1, lanes = 1;  // results are parts × lanes
    std::int64_t elements() const { return count * parts * lanes; }
  };
  Slices slices_of(const Stage& stage, const std::vector<VarId>& free) const {
    Substitution ones;
    const Loops results = loops_of(free, ones);
    const bool few = reorders_ && stage.reducer != te::Reducer::None && !results.axes.empty() &&
                     results.extent.is_constant() && turns(stage) >= kSlicedSum;
    if (!few) return {};
    Slices made;
    const bool vectors = by_vectors(results) && has_vectors(stage.body.dtype()) &&
                         has_vectors(formula_.buffer(stage.target).dtype) &&
                         comes_in_vectors(lowering_, stage.body, results.axes[0]);
    if (vectors) made.lanes = kRowLanes;
    made.parts = results.extent.constant() / made.lanes;
    if (made.parts == 0 || threads_ % made.parts != 0) return {};
    made.count = threads_ / made.parts;
    return made.count >= 2 && made.count <= kMostSlices ? made : Slices();
  }

  // No statement where indices of its terms would have to be checked.
  Stmt in_slices(const Stage& stage, const std::vector<VarId>& free, Substitution bound) {
    const Slices slices = slices_of(stage, free);
    if (slices.count == 0) return {};
    const Loops results = loops_of(free, bound), terms = loops_of(stage.reduction, bound);
    const DType dtype = stage.body.dtype();
    const std::int64_t at_once = slices.count * kTurnsAhead;
    const VarId lane = lowering_.loop("v", slices.lanes), ahead = lowering_.loop("u", kTurnsAhead),
                turn = lowering_.loop("i", ceil_div(terms.extent, at_once));
    auto each_lane = [&](const Stmt& what) {
      return Stmt::loop(slices.lanes > 1 ? LoopKind::Vector : LoopKind::Unrolled, lane, what);
    };
    const Expr thread = Expr::variable(thread_), l = Expr::variable(lane),
               slice = te::floor_div(thread, Expr::index(slices.parts)),
               place = te::mod(thread, Expr::index(slices.parts)) * Expr::index(slices.lanes) + l,
               term = (Expr::variable(turn) * Expr::index(kTurnsAhead) + Expr::variable(ahead)) *
                          Expr::index(slices.count) +
                      slice;
    side_of(results).bind(formula_, place, bound);
    Substitution inner = bound;
    side_of(terms).bind(formula_, term, inner);
    const Lowering::Body value = lowering_.body(stage.body, inner);
    if (!value.checks.empty()) return {};
    const kir::BufferId sum = lowering_.scratch("a", dtype, {slices.lanes}, Scope::Register);
    const kir::BufferId shared =
        lowering_.scratch("p", dtype, {slices.count, slices.parts * slices.lanes}, Scope::Shared);
    const Expr none = identity_of(stage.reducer, dtype), own = Expr::load(sum, dtype, {l});
    const Expr is_inside = inside(term, terms.extent, at_once);
    const Expr next = is_inside.defined() ? te::select(is_inside, value.value, none) : value.value;
    const Stmt add = each_lane(Stmt::store(sum, {l}, combined(stage.reducer, own, next)));
    std::vector<Expr> all;
    for (std::int64_t i = 0; i < slices.count; ++i)
      all.push_back(Expr::load(shared, dtype, {Expr::index(i), place}));
    const Stmt last = finish(stage, bound, combined_in_pairs(stage.reducer, std::move(all)));
    return Stmt::block({each_lane(Stmt::store(sum, {l}, none)),
                        Stmt::loop(LoopKind::Serial, turn, Stmt::loop(LoopKind::Unrolled, ahead, add)),
                        each_lane(Stmt::store(shared, {slice, place}, own)), barrier(),
                        Stmt::branch(thread < Expr::index(slices.parts), each_lane(last))});
  }

  Side side_of(const Loops& loops) const {
    Side side;
    for (VarId axis : loops.axes) side.add(formula_, axis);
    return side;
  }

  Stmt row_of(const Stage& stage, const std::vector<VarId>& free, Substitution bound) {
    const Loops loops = loops_of(free, bound);
    const bool one = loops.axes.empty();
    if (!one || stage.reducer == te::Reducer::None || keep_order_) {
      const bool vectors = stage.reducer == te::Reducer::None && by_vectors(loops) &&
                           has_vectors(formula_.buffer(stage.target).dtype);
      if (!one) {
        return shared_out(loops, bound, vectors,
                          [&](const Substitution& at, const Expr&) { return element(stage, at); });
      }
      return is_own(stage) ? element(stage, bound) : by_one_thread(element(stage, bound));
    }
    return together(stage, std::move(bound));
  }

  // Every thread has a copy of the stage's one result.
  bool is_own(const Stage& stage) const { return own_.contains(stage.target); }

  Stmt by_one_thread(Stmt body) const {
    return Stmt::branch(te::equal(Expr::variable(thread_), 0), std::move(body));
  }

  // Threads that exchange values by themselves, where that leaves few sums to share; 1 elsewhere.
  std::int64_t threads_of_block(DType dtype) const {
    const bool word = dtype == DType::F32 || dtype == DType::I32 || dtype == DType::U32;
    const std::int64_t lanes = std::min(lowering_.subgroup_lanes(), threads_);
    return word && lanes > 1 && threads_ / lanes <= kFewSums ? lanes : 1;
  }

  // One sum by all threads: each adds up its elements, then neighbours are added to neighbours, two by two. Threads of a block
  // exchange their sums; without blocks, a few threads add up a stretch of them each. Either way it is the same tree.
  Stmt together(const Stage& stage, Substitution bound) {
    const DType dtype = stage.body.dtype();
    const Loops loops = loops_of(stage.reduction, bound);
    const bool vectors = by_vectors(loops) && has_vectors(dtype);
    const std::int64_t lanes = vectors ? kRowLanes : 1;
    const kir::BufferId sum = lowering_.scratch("a", dtype, {lanes}, Scope::Register);
    const Expr thread = Expr::variable(thread_), none = Expr::index(0);
    auto own = [&](const Expr& lane) { return Expr::load(sum, dtype, {lane}); };
    auto add_up = [&](std::int64_t count, auto term) {  // sum[0] = all terms
      std::vector<Expr> terms;
      for (std::int64_t i = 0; i < count; ++i) terms.push_back(term(i));
      return Stmt::store(sum, {none}, combined_in_pairs(stage.reducer, std::move(terms)));
    };
    std::vector<Stmt> body;
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      body.push_back(Stmt::store(sum, {Expr::index(lane)}, identity_of(stage.reducer, dtype)));
    body.push_back(shared_out(loops, bound, vectors, [&](const Substitution& at, const Expr& lane) {
      return accumulate(sum, stage, at, lane);
    }));
    body.push_back(add_up(lanes, [&](std::int64_t i) { return own(Expr::index(i)); }));
    const std::int64_t block = threads_of_block(dtype), blocks = threads_ / block;
    if (block > 1) body.push_back(exchanged(stage, sum, block));
    auto share = [&](kir::BufferId sums, const Expr& place) { return Stmt::store(sums, {place}, own(none)); };
    kir::BufferId sums;
    if (block == 1) {
      // A stretch lies apart from the next, so that threads read from different banks.
      const std::int64_t stretch = threads_ / kFewSums;
      const kir::BufferId parts = lowering_.scratch("p", dtype, {threads_ + kFewSums}, Scope::Shared);
      sums = lowering_.scratch("p", dtype, {kFewSums}, Scope::Shared);
      auto part = [&](std::int64_t i) {
        return Expr::load(parts, dtype, {thread * Expr::index(stretch + 1) + Expr::index(i)});
      };
      Stmt some = Stmt::block({add_up(stretch, part), share(sums, thread)});
      body.insert(body.end(), {share(parts, thread + te::floor_div(thread, Expr::index(stretch))), barrier(),
                               Stmt::branch(thread < Expr::index(kFewSums), some), barrier()});
    } else if (blocks > 1) {
      sums = lowering_.scratch("p", dtype, {blocks}, Scope::Shared);
      const Expr is_first = te::equal(te::mod(thread, Expr::index(block)), 0);
      body.insert(body.end(), {Stmt::branch(is_first, share(sums, te::floor_div(thread, Expr::index(block)))),
                               barrier()});
    }
    if (sums.valid()) {
      body.push_back(add_up(block == 1 ? kFewSums : blocks,
                            [&](std::int64_t i) { return Expr::load(sums, dtype, {Expr::index(i)}); }));
      unseen_.clear();
    }
    Stmt all = finish(stage, bound, own(none));
    body.push_back(is_own(stage) ? all : by_one_thread(all));
    return Stmt::block(std::move(body));
  }

  // Each thread's sum is that of its whole block, by the pairs of a tree: the lower thread's is the first of a pair.
  Stmt exchanged(const Stage& stage, kir::BufferId sum, std::int64_t block) {
    const DType dtype = stage.body.dtype();
    const Expr none = Expr::index(0);
    const kir::BufferId other = lowering_.scratch("o", dtype, {1}, Scope::Register);
    const Expr own = Expr::load(sum, dtype, {none}), their = Expr::load(other, dtype, {none});
    std::vector<Stmt> steps;
    for (std::int64_t mask = 1; mask < block; mask *= 2) {
      steps.push_back(Stmt::call(kir::Intrinsic::ShuffleXor,
                                 {{other, {none}, {}}, {sum, {none}, {}}, {{}, {}, Expr::index(mask)}}));
      const Expr is_lower =
          te::equal(te::mod(te::floor_div(Expr::variable(thread_), Expr::index(mask)), Expr::index(2)), 0);
      const bool ordered = stage.reducer == te::Reducer::Largest;
      const Expr first = ordered ? te::select(is_lower, own, their) : own;
      const Expr second = ordered ? te::select(is_lower, their, own) : their;
      steps.push_back(Stmt::store(sum, {none}, combined(stage.reducer, first, second)));
    }
    return Stmt::block(std::move(steps));
  }

  Lowering& lowering_;
  const te::Formula& formula_;
  const bool keep_order_;
  std::vector<Alignment::Class> rows_;
  std::vector<bool> is_row_;  // by class
  std::set<te::BufferId> own_;  // in registers, a copy for every thread
  std::set<te::BufferId> unseen_;  // written since the last barrier
  bool reorders_ = false;  // sums of one row may be made in parts
  std::int64_t threads_ = 32, longest_ = 1;
  VarId thread_;
};

}  // namespace

Stmt lower_long_sums(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  return RowsInGroups(lowering, schedule.exactness == Exactness::Exact).long_sums(stage);
}

Stmt lower_scan_in_group(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  return RowsInGroups(lowering, schedule.exactness == Exactness::Exact).scan(stage);
}

Stmt lower_rows_in_groups(Lowering& lowering, const Schedule& schedule) {
  return RowsInGroups(lowering, schedule.exactness == Exactness::Exact).run();
}

}  // namespace xyntra
