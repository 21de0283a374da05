// Scans over many sequences (schedule/recurrence.h): a workgroup takes some of them through all steps. What a step sums is shared out by
// results and slices of their terms, what it computes element by element by elements; threads wait for one another between the two.
//
//   weights of the sums into registers, states as they begin, what the first step reads
//   for t < T {
//     what step t + 1 reads of memory is on its way
//     sums of h and weights     each thread its results; slices of a sum are exchanged by shuffles
//     barrier
//     gates, the next states    each thread its elements, states in its registers where nobody else reads them
//     barrier
//   }
//   last states
#include <algorithm>

#include "lower/gpu/contraction/lower_groups.h"
#include "lower/gpu/sheltered_loads.h"
#include "lower/nested_loops.h"
#include "schedule/contraction/product_sides.h"
#include "schedule/recurrence.h"

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

using Part = Recurrence::Part;
using Step = Recurrence::Step;

class BatchRecurrence {
 public:
  BatchRecurrence(Lowering& lowering, Recurrence recurrence, const RecurrenceTile& tile, bool keep_order)
      : lowering_(lowering),
        formula_(lowering.formula()),
        recurrence_(std::move(recurrence)),
        tile_(tile),
        keep_order_(keep_order) {}

  Stmt run() {
    std::vector<VarId> grid;
    for (std::size_t r = 0; r < recurrence_.extents.size(); ++r) {
      const bool last = r + 1 == recurrence_.extents.size();
      const Dim& extent = recurrence_.extents[r];
      grid.push_back(lowering_.loop("row", last ? ceil_div(extent, Dim(tile_.rows)) : extent));
      group_.push_back(Expr::variable(grid.back()));
    }
    if (grid.empty()) grid.push_back(lowering_.loop("g", 1));
    const VarId thread = lowering_.loop("x", tile_.threads);
    thread_ = Expr::variable(thread);
    place_values();
    const te::Variable& time = formula_.variable(recurrence_.time);
    const VarId turn = lowering_.loop(time.name, time.extent);
    const Expr now = Expr::variable(turn), steps = Expr::size(time.extent);
    find_reads();
    std::vector<Stmt> item{weights()}, body;
    item.push_back(one_by_one(Part::Before, {}));
    item.push_back(wait());
    const Stmt first = read_ahead(Expr::index(0), Reads::All, &Read::now);
    const bool runs = time.extent.is_constant() && time.extent.constant() > 0;
    item.push_back(runs ? first : Stmt::branch(Expr::index(0) < steps, first));
    const Expr next = now + Expr::index(1), goes_on = next < steps;
    const bool ahead = std::ranges::any_of(reads_, &Read::moves);
    if (ahead) body.push_back(Stmt::branch(goes_on, read_ahead(next, Reads::Moving, &Read::next)));
    body.push_back(one_step(now));
    if (ahead) body.push_back(Stmt::branch(goes_on, arrive()));
    body.push_back(wait());
    item.push_back(Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body))));
    item.push_back(one_by_one(Part::After, {}));
    const Stmt made = Stmt::loop(LoopKind::Thread, thread, Stmt::block(std::move(item)));
    return shelter_loads(lowering_.kernel(), in_loops(LoopKind::Grid, grid, made));
  }

 private:
  // ---- where things are

  std::int64_t elements() const {
    std::int64_t all = 1;
    for (const Dim& extent : recurrence_.elements) all *= extent.constant();
    return all;
  }
  std::int64_t turns() const { return (tile_.rows * elements() + tile_.threads - 1) / tile_.threads; }

  void place_values() {
    for (const Step& step : recurrence_.steps) {
      const BufferId target = step.stage.target;
      if (recurrence_.value(target) == nullptr && !lowering_.is_placed(target))
        lowering_.place(target, Scope::Workspace);
    }
    for (const Recurrence::Value& value : recurrence_.values) {
      const te::BufferInfo& buffer = formula_.buffer(value.buffer);
      Shape shape{value.own ? turns() : tile_.rows};
      for (std::size_t d = 0; !value.own && d < buffer.shape.size(); ++d) {
        if (value.kept[d]) shape.push_back(buffer.shape[d]);
      }
      placed_[value.buffer] =
          lowering_.scratch("s", buffer.dtype, std::move(shape), value.own ? Scope::Register : Scope::Shared);
    }
  }

  // The loops of a stage at one of the group's sequences.
  Substitution at_row(const Step& step, const Expr& row, const Expr& time) const {
    Substitution bound;
    for (VarId axis : step.ones) bound[axis.index] = Expr::index(0);
    for (std::size_t r = 0; r < step.rows.size(); ++r)
      bound[step.rows[r].index] = r + 1 < step.rows.size() ? group_[r] : sequence(row);
    if (time.defined()) bound[recurrence_.time.index] = time;
    return bound;
  }
  // Beyond the last sequence there is the last one again, of which nothing is written.
  Expr sequence(const Expr& row) const {
    if (tile_.rows == 1) return group_.back();
    return te::min(group_.back() * Expr::index(tile_.rows) + row,
                   Expr::size(recurrence_.extents.back() - Dim(1)));
  }
  Expr is_there(const Expr& row) const {
    if (tile_.rows == 1 || te::divides(Dim(tile_.rows), recurrence_.extents.back())) return {};
    return group_.back() * Expr::index(tile_.rows) + row < Expr::size(recurrence_.extents.back());
  }

  std::vector<Expr> shared_index(const Recurrence::Value& value, const std::vector<Expr>& index,
                                 const Substitution& bound, const Expr& row) {
    std::vector<Expr> made{row};
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (value.kept[d]) made.push_back(lowering_.at(index[d], bound));
    }
    return made;
  }

  // An expression of the formula, values on chip where they are: those of a thread at one of its turns.
  Lowering::Body body(const Expr& expr, const Substitution& bound, const Expr& row, const Expr& turn,
                      const Expr& accumulator = {}) {
    return lowering_.body(expr, bound, accumulator, [&](const te::ExprNode& load) -> Expr {
      if (const Recurrence::Value* value = recurrence_.value(load.buffer)) {
        const kir::BufferId at = placed_.at(load.buffer);
        if (value->own) return Expr::load(at, load.dtype, {turn});
        return Expr::load(at, load.dtype, shared_index(*value, te::index_of(load), bound, row));
      }
      const Read* read = turn.defined() ? read_of(load) : nullptr;
      return read == nullptr ? Expr() : Expr::load(read->now, load.dtype, {turn});
    });
  }

  Stmt store(const Step& step, const Substitution& bound, const Expr& row, const Expr& turn,
             Lowering::Body made) {
    const Recurrence::Value* value = recurrence_.value(step.stage.target);
    if (value == nullptr) {
      Stmt all = lowering_.store(step.stage, bound, std::move(made));
      const Expr there = is_there(row);
      return there.defined() ? Stmt::branch(there, all) : all;
    }
    std::vector<Expr> index{turn};
    if (!value->own) index = shared_index(*value, step.stage.store, bound, row);
    made.checks.push_back(Stmt::store(placed_.at(value->buffer), std::move(index),
                                      te::cast(formula_.buffer(value->buffer).dtype, made.value)));
    return Stmt::block(std::move(made.checks));
  }

  // ---- waiting

  Stmt wait() {
    written_.clear();
    read_.clear();
    return Stmt::call(kir::Intrinsic::Barrier, {});
  }
  bool is_shared(BufferId buffer) const {
    const Recurrence::Value* value = recurrence_.value(buffer);
    return value != nullptr && !value->own;
  }
  // Whether other threads may still be writing what a stage reads, or reading what it writes.
  bool has_to_wait(const Step& step) const {
    return read_.contains(step.stage.target) ||
           te::any_load(step.stage, [&](const te::ExprNode& load) { return written_.contains(load.buffer); });
  }
  void note(const Step& step) {
    if (is_shared(step.stage.target)) written_.insert(step.stage.target);
    te::for_each_node(step.stage, [&](const te::ExprNode& node) {
      if (te::is_load(node) && is_shared(node.buffer) && !at_own_place(step, node.buffer))
        read_.insert(node.buffer);
    });
  }
  // Whether a thread that computes elements reads of a shared value what it will write itself.
  bool at_own_place(const Step& step, BufferId buffer) const {
    if (step.sums()) return false;
    return std::ranges::all_of(recurrence_.steps, [&](const Step& writer) {
      if (writer.stage.target != buffer) return true;
      if (writer.sums() || writer.stage.store.size() != formula_.buffer(buffer).shape.size()) return false;
      std::map<VarId, VarId> loops;
      for (std::size_t i = 0; i < writer.free.size(); ++i) loops[writer.free[i]] = step.free[i];
      bool own = true;
      te::for_each_node(step.stage, [&](const te::ExprNode& node) {
        if (!te::is_load(node) || node.buffer != buffer) return;
        const std::vector<Expr> index = te::index_of(node);
        const Recurrence::Value& value = *recurrence_.value(buffer);
        for (std::size_t d = 0; d < index.size(); ++d) {
          if (!value.kept[d]) continue;
          const Expr& store = writer.stage.store[d];
          own = own && store->op == te::ExprOp::Var && index[d]->op == te::ExprOp::Var &&
                loops.contains(store->var) && loops.at(store->var) == index[d]->var;
        }
      });
      return own;
    });
  }

  // ---- what a step reads of memory, by element

  struct Read {
    Expr load;
    const Step* step = nullptr;
    bool moves = false;  // with the steps
    kir::BufferId now, next;
  };
  enum class Reads : std::uint8_t { All, Moving };

  const Read* read_of(const te::ExprNode& load) const {
    const auto found =
        std::ranges::find_if(reads_, [&](const Read& read) { return read.load.address() == &load; });
    return found == reads_.end() ? nullptr : &*found;
  }

  // Those whose places are known beforehand, and inside whatever the values are.
  void find_reads() {
    auto comes_early = [&](const Expr& load) {
      if (load->op != te::ExprOp::Load || recurrence_.value(load->buffer) != nullptr) return false;
      const Shape& shape = formula_.buffer(load->buffer).shape;
      const std::vector<Expr> index = te::index_of(*load);
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (te::reads_data(index[d]) || !lowering_.algebra().within(index[d], 0, shape[d])) return false;
      }
      return true;
    };
    for (const Step& step : recurrence_.steps) {
      if (step.part != Part::Step || step.sums()) continue;
      te::Rewriter collect([&](const Expr& expr) -> Expr {
        if (!te::is_load(*expr) || !comes_early(expr)) return {};
        const bool moves = te::variables_of(expr).contains(recurrence_.time);
        const bool known = std::ranges::any_of(
            reads_, [&](const Read& read) { return read.load.address() == expr.address(); });
        if (known) return {};
        auto held = [&] { return lowering_.scratch("r", expr.dtype(), {Dim(turns())}, Scope::Register); };
        Read read{expr, &step, moves, held(), {}};
        if (moves) read.next = held();
        reads_.push_back(read);
        return {};
      });
      for (const Expr* expr : {&step.stage.body, &step.stage.finish}) {
        if (expr->defined()) collect(*expr);
      }
    }
  }

  Stmt read_ahead(const Expr& time, Reads which, kir::BufferId Read::* into) {
    return by_element([&](const Expr& row, const std::vector<Expr>& index, const Expr& turn) {
      std::vector<Stmt> made;
      for (const Read& read : reads_) {
        if (which == Reads::Moving && !read.moves) continue;
        const Substitution bound = at_element(*read.step, row, index, time);
        made.push_back(Stmt::store(read.*into, {turn}, lowering_.body(read.load, bound).value));
      }
      return Stmt::block(std::move(made));
    });
  }
  Stmt arrive() {
    return by_element([&](const Expr&, const std::vector<Expr>&, const Expr& turn) {
      std::vector<Stmt> made;
      for (const Read& read : reads_) {
        if (read.moves)
          made.push_back(Stmt::store(read.now, {turn}, Expr::load(read.next, read.load.dtype(), {turn})));
      }
      return Stmt::block(std::move(made));
    });
  }

  // ---- element by element

  Substitution at_element(const Step& step, const Expr& row, const std::vector<Expr>& index,
                          const Expr& time) const {
    Substitution bound = at_row(step, row, time);
    for (std::size_t i = 0; i < step.free.size(); ++i) bound[step.free[i].index] = index[i];
    return bound;
  }

  // what(row, index, turn) for the elements of a thread.
  template <class What>
  Stmt by_element(What what) {
    const VarId turn = lowering_.loop("i", turns());
    const std::int64_t all = tile_.rows * elements();
    const Expr position = Expr::variable(turn) * Expr::index(tile_.threads) + thread_;
    std::vector<Dim> extents{Dim(tile_.rows)};
    extents.insert(extents.end(), recurrence_.elements.begin(), recurrence_.elements.end());
    std::vector<Expr> index = index_at(position, extents);
    const Expr row = index.front();
    index.erase(index.begin());
    Stmt made = what(row, index, Expr::variable(turn));
    if (all % tile_.threads != 0) made = Stmt::branch(position < Expr::index(all), made);
    return Stmt::loop(LoopKind::Unrolled, turn, made);
  }

  // Stages of a part one after another, as far as none waits for another thread.
  Stmt elements_of(std::span<const Step* const> steps, const Expr& time) {
    return by_element([&](const Expr& row, const std::vector<Expr>& index, const Expr& turn) {
      std::vector<Stmt> made;
      for (const Step* step : steps) {
        const Substitution bound = at_element(*step, row, index, time);
        Lowering::Body value = body(step->stage.body, bound, row, turn);
        if (step->stage.finish.defined()) {
          Lowering::Body last = body(step->stage.finish, bound, row, turn, value.value);
          value.checks.insert(value.checks.end(), last.checks.begin(), last.checks.end());
          value.value = std::move(last.value);
        }
        made.push_back(store(*step, bound, row, turn, std::move(value)));
      }
      return Stmt::block(std::move(made));
    });
  }

  Stmt one_by_one(Part part, const Expr& time) {
    std::vector<const Step*> steps;
    for (const Step& step : recurrence_.steps) {
      if (step.part == part) steps.push_back(&step);
    }
    return elements_of(steps, time);
  }

  Stmt one_step(const Expr& time) {
    std::vector<Stmt> made;
    std::vector<const Step*> waiting;  // stages by element that need no barrier between them
    auto flush = [&] {
      if (!waiting.empty()) made.push_back(elements_of(waiting, time));
      waiting.clear();
    };
    std::size_t sum = 0;
    for (const Step& step : recurrence_.steps) {
      if (step.part != Part::Step) continue;
      if (step.sums() || has_to_wait(step)) flush();
      if (has_to_wait(step)) made.push_back(wait());
      if (step.sums()) {
        made.push_back(sums(step, sums_.at(sum++), time));
      } else {
        waiting.push_back(&step);
      }
      note(step);
    }
    flush();
    return Stmt::block(std::move(made));
  }

  // ---- sums

  struct Sum {
    std::int64_t results = 1, terms = 1;
    std::int64_t passes = 1, iterations = 1;  // over results, and over the terms of one
    std::int64_t kept = 0;  // iterations whose weights are in registers
    kir::BufferId weights;
  };

  Expr slice() const { return te::mod(thread_, Expr::index(tile_.slices)); }
  Expr result(const Expr& pass) const {
    return pass * Expr::index(tile_.results_at_once()) + te::floor_div(thread_, Expr::index(tile_.slices));
  }
  bool is_whole(const Sum& sum) const { return sum.results % tile_.results_at_once() == 0; }
  Expr term(const Expr& iteration, const Expr& lane) const {
    return (iteration * Expr::index(tile_.slices) + slice()) * Expr::index(tile_.lanes) + lane;
  }

  // The loops of a sum at one of its results and terms.
  Substitution at_term(const Step& step, const Sum& sum, const Expr& pass, const Expr& row, const Expr& time,
                       const Expr& at) const {
    Substitution bound = at_row(step, row, time);
    Expr number = result(pass);
    if (!is_whole(sum)) number = te::min(number, Expr::index(sum.results - 1));
    auto bind = [&](const std::vector<VarId>& loops, const Expr& position) {
      std::vector<Dim> extents;
      for (VarId loop : loops) extents.push_back(formula_.variable(loop).extent);
      const std::vector<Expr> index = index_at(position, extents);
      for (std::size_t i = 0; i < loops.size(); ++i) bound[loops[i].index] = index[i];
    };
    bind(step.free, number);
    if (at.defined()) bind(step.stage.reduction, at);
    return bound;
  }

  Stmt in_lanes(const std::function<Stmt(const Expr& lane)>& what) {
    const VarId lane = lowering_.loop("v", tile_.lanes);
    return Stmt::loop(tile_.lanes > 1 ? LoopKind::Vector : LoopKind::Unrolled, lane,
                      what(Expr::variable(lane)));
  }
  // A factor of some iterations into registers, before any of it is used.
  Stmt weights_of(const Step& step, const Sum& sum, std::size_t factor, kir::BufferId into, const Expr& pass,
                  const Expr& iteration, const std::vector<Expr>& place) {
    return in_lanes([&](const Expr& lane) {
      const Substitution bound = at_term(step, sum, pass, Expr::index(0), {}, term(iteration, lane));
      Lowering::Body value = lowering_.body(step.stage.body->operands[factor], bound);
      std::vector<Expr> index = place;
      index.push_back(lane);
      value.checks.push_back(Stmt::store(into, std::move(index), value.value));
      return Stmt::block(std::move(value.checks));
    });
  }

  // Of all sums, what fits; nothing is as much the same in every step.
  Stmt weights() {
    std::vector<Stmt> made;
    std::int64_t left = tile_.kept;
    for (const Step& step : recurrence_.steps) {
      if (!step.sums()) continue;
      Sum sum;
      sum.results = recurrence_.count(formula_, step.free);
      sum.terms = recurrence_.count(formula_, step.stage.reduction);
      sum.passes = (sum.results + tile_.results_at_once() - 1) / tile_.results_at_once();
      sum.iterations = sum.terms / (tile_.slices * tile_.lanes);
      if (const auto factor = recurrence_.steady_factor(step)) {
        sum.kept = std::min(sum.iterations, left / (sum.passes * tile_.lanes));
        left -= sum.kept * sum.passes * tile_.lanes;
        if (sum.kept > 0) {
          sum.weights =
              lowering_.scratch("w", step.stage.body->operands[*factor].dtype(),
                                {Dim(sum.passes), Dim(sum.kept), Dim(tile_.lanes)}, Scope::Register);
          const VarId pass = lowering_.loop("p", sum.passes), k = lowering_.loop("k", sum.kept);
          const Expr p = Expr::variable(pass), at = Expr::variable(k);
          made.push_back(in_loops(LoopKind::Unrolled, {pass, k},
                                  weights_of(step, sum, *factor, sum.weights, p, at, {p, at})));
        }
      }
      sums_.push_back(sum);
    }
    return Stmt::block(std::move(made));
  }

  Stmt sums(const Step& step, const Sum& sum, const Expr& time) {
    const DType dtype = step.stage.body.dtype();
    const VarId pass = lowering_.loop("p", sum.passes);
    const Expr p = Expr::variable(pass);
    const kir::BufferId all =
        lowering_.scratch("a", dtype, {Dim(tile_.rows), Dim(tile_.lanes)}, Scope::Register);
    std::vector<Stmt> made{in_rows([&](const Expr& row) {
      return in_lanes(
          [&](const Expr& lane) { return Stmt::store(all, {row, lane}, Expr::number(dtype, 0)); });
    })};
    if (sum.kept > 0) {
      const VarId k = lowering_.loop("k", sum.kept);
      const Expr at = Expr::variable(k);
      made.push_back(
          Stmt::loop(LoopKind::Unrolled, k, multiply(step, sum, all, p, at, time, [&](const Expr& lane) {
                       return Expr::load(sum.weights, dtype, {p, at, lane});
                     })));
    }
    if (sum.kept < sum.iterations) made.push_back(streamed(step, sum, all, p, time));
    made.push_back(finished(step, sum, all, p, time));
    Stmt one = Stmt::block(std::move(made));
    if (tile_.slices == 1 && !is_whole(sum)) one = Stmt::branch(result(p) < Expr::index(sum.results), one);
    return Stmt::loop(sum.kept > 0 ? LoopKind::Unrolled : LoopKind::Serial, pass, one);
  }

  Stmt in_rows(const std::function<Stmt(const Expr& row)>& what) {
    const VarId row = lowering_.loop("r", tile_.rows);
    return Stmt::loop(LoopKind::Unrolled, row, what(Expr::variable(row)));
  }

  // The terms of one iteration, for all sequences: what they have in common is `weight`, where that is known.
  Stmt multiply(const Step& step, const Sum& sum, kir::BufferId all, const Expr& pass, const Expr& iteration,
                const Expr& time, const std::function<Expr(const Expr& lane)>& weight) {
    const DType dtype = step.stage.body.dtype();
    const auto factor = recurrence_.steady_factor(step);
    const Expr& of_row = factor ? step.stage.body->operands[1 - *factor] : step.stage.body;
    const kir::BufferId own = lowering_.scratch("h", dtype, {Dim(tile_.lanes)}, Scope::Register);
    return in_rows([&](const Expr& row) {
      const Stmt read = in_lanes([&](const Expr& lane) {
        const Substitution bound = at_term(step, sum, pass, row, time, term(iteration, lane));
        Lowering::Body value = body(of_row, bound, row, {});
        value.checks.push_back(Stmt::store(own, {lane}, value.value));
        return Stmt::block(std::move(value.checks));
      });
      const Stmt add = in_lanes([&](const Expr& lane) {
        const Expr so_far = Expr::load(all, dtype, {row, lane}), value = Expr::load(own, dtype, {lane});
        if (!factor) return Stmt::store(all, {row, lane}, so_far + value);
        const Expr by = weight(lane);
        const bool fused = !keep_order_ && dtype == DType::F32;
        return Stmt::store(all, {row, lane}, fused ? te::fma(value, by, so_far) : so_far + value * by);
      });
      return Stmt::block({read, add});
    });
  }

  // Weights that come from memory in every step, some iterations of them at a time.
  Stmt streamed(const Step& step, const Sum& sum, kir::BufferId all, const Expr& pass, const Expr& time) {
    const std::int64_t count = sum.iterations - sum.kept;
    std::int64_t ahead = 1;
    while (ahead < 8 && count % (ahead * 2) == 0) ahead *= 2;
    const VarId turn = lowering_.loop("k", count / ahead), some = lowering_.loop("u", ahead),
                each = lowering_.loop("t", ahead);
    auto iteration = [&](VarId inner) {
      return Expr::variable(turn) * Expr::index(ahead) + Expr::variable(inner) + Expr::index(sum.kept);
    };
    const auto factor = recurrence_.steady_factor(step);
    const DType dtype = step.stage.body.dtype();
    std::vector<Stmt> made;
    kir::BufferId weights;
    if (factor) {
      weights = lowering_.scratch("w", dtype, {Dim(ahead), Dim(tile_.lanes)}, Scope::Register);
      made.push_back(
          Stmt::loop(LoopKind::Unrolled, some,
                     weights_of(step, sum, *factor, weights, pass, iteration(some), {Expr::variable(some)})));
    }
    made.push_back(Stmt::loop(LoopKind::Unrolled, each,
                              multiply(step, sum, all, pass, iteration(each), time, [&](const Expr& lane) {
                                return Expr::load(weights, dtype, {Expr::variable(each), lane});
                              })));
    return Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(made)));
  }

  // Lanes with lanes, slices with slices, two by two; the first slice writes the result.
  Stmt finished(const Step& step, const Sum& sum, kir::BufferId all, const Expr& pass, const Expr& time) {
    const DType dtype = step.stage.body.dtype();
    const kir::BufferId total = lowering_.scratch("o", dtype, {1}, Scope::Register),
                        other = lowering_.scratch("o", dtype, {1}, Scope::Register);
    const Expr none = Expr::index(0), own = Expr::load(total, dtype, {none});
    return in_rows([&](const Expr& row) {
      std::vector<Expr> lanes;
      for (std::int64_t lane = 0; lane < tile_.lanes; ++lane)
        lanes.push_back(Expr::load(all, dtype, {row, Expr::index(lane)}));
      std::vector<Stmt> made{
          Stmt::store(total, {none}, combined_in_pairs(te::Reducer::Sum, std::move(lanes)))};
      for (std::int64_t mask = 1; mask < tile_.slices; mask *= 2) {
        made.push_back(Stmt::call(kir::Intrinsic::ShuffleXor,
                                  {{other, {none}, {}}, {total, {none}, {}}, {{}, {}, Expr::index(mask)}}));
        made.push_back(Stmt::store(total, {none}, own + Expr::load(other, dtype, {none})));
      }
      const Substitution bound = at_term(step, sum, pass, row, time, {});
      Lowering::Body value{{}, own};
      if (step.stage.finish.defined()) value = body(step.stage.finish, bound, row, {}, own);
      Stmt last = store(step, bound, row, {}, std::move(value));
      Expr writes;
      if (tile_.slices > 1) writes = te::equal(slice(), 0);
      if (tile_.slices > 1 && !is_whole(sum))
        writes = conjunction_of(writes, result(pass) < Expr::index(sum.results));
      made.push_back(writes.defined() ? Stmt::branch(writes, last) : last);
      return Stmt::block(std::move(made));
    });
  }

  Lowering& lowering_;
  const te::Formula& formula_;
  const Recurrence recurrence_;
  const RecurrenceTile tile_;
  const bool keep_order_;
  Expr thread_;
  std::vector<Expr> group_;  // the workgroup's place among sequences, by loop
  std::map<BufferId, kir::BufferId> placed_;
  std::vector<Read> reads_;
  std::vector<Sum> sums_;
  std::set<BufferId> written_, read_;  // of shared values since the last barrier
};

}  // namespace

kir::Stmt lower_batch_recurrence(Lowering& lowering, std::span<const te::Stage> stages, bool keep_order,
                                 std::size_t& taken) {
  auto found = Recurrence::find(lowering, stages);
  if (!found) return {};
  const auto tile =
      choose_recurrence_tile(lowering, *found, lowering.subgroup_lanes(), keep_order, lowering.forms());
  if (!tile) return {};
  taken = found->taken;
  return lowering.shown_to_be_inside(BatchRecurrence(lowering, std::move(*found), *tile, keep_order).run());
}

}  // namespace xyntra
