#include "lower/gpu/group_stage.h"

#include <algorithm>

#include "kir/code_size.h"
#include "lower/gpu/contraction/lower_groups.h"
#include "lower/nested_loops.h"
#include "schedule/choose.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kLongestUnrolled =
    2000;  // operations, of all iterations: longer ones win nothing by being written out

}  // namespace

bool keeps_order(const Lowering& lowering, const Schedule& schedule) {
  return schedule.exactness == Exactness::Exact && adds_floats(lowering.formula().stages);
}

bool GroupStage::is_shared_out(const Stage& stage) const {
  return bits_of(formula_.buffer(stage.target).dtype) >= 8;
}

std::int64_t GroupStage::elements(const Stage& stage) const {
  std::int64_t count = 1;
  for (VarId axis : stage.axes) count *= lowering_.size(formula_.variable(axis).extent);
  return count;
}

std::int64_t GroupStage::terms(const Stage& stage) const {
  std::int64_t count = 1;
  for (VarId axis : stage.reduction) count *= lowering_.size(formula_.variable(axis).extent);
  return count;
}

Stmt GroupStage::around(const std::function<Stmt()>& body) {
  thread_ = lowering_.loop("x", threads);
  return Stmt::loop(LoopKind::Thread, thread_, body());
}

Stmt GroupStage::wait() {
  unseen_.clear();
  return barrier();
}

Stmt GroupStage::by_one_thread(Stmt body) const {
  return Stmt::branch(te::equal(Expr::variable(thread_), 0), std::move(body));
}

// Whether other threads may still be writing what it reads.
bool GroupStage::reads_unseen(const Stage& stage) const {
  return te::any_load(stage, [this](const te::ExprNode& load) { return unseen_.contains(load.buffer); });
}

Stmt GroupStage::lowered(const Stage& stage, const std::vector<VarId>& free, const Substitution& bound) {
  std::vector<Stmt> body;
  if (reads_unseen(stage)) body.push_back(wait());
  Stmt sliced = in_slices(stage, free, bound);
  body.push_back(sliced.defined() ? sliced : in_turns(stage, free, bound));
  if (!is_own(stage)) unseen_.insert(stage.target);
  return Stmt::block(std::move(body));
}

// Loops of one turn are bound instead.
Side GroupStage::loops_of(const std::vector<VarId>& axes, Substitution& bound) const {
  Side loops;
  for (VarId axis : axes) {
    if (formula_.variable(axis).extent.is(1)) {
      bound[axis.index] = Expr::index(0);
    } else {
      loops.add(formula_, axis);
    }
  }
  return loops;
}

// Whether threads can take several elements at a time: they lie along one loop.
bool GroupStage::by_vectors(const Side& loops) const {
  return loops.axes.size() == 1 && te::divides(Dim(lanes), loops.extent);
}

Stmt GroupStage::shared_out(const Side& loops, const Substitution& bound, bool vectors, const AtPlace& what) {
  std::vector<Dim> extents;
  for (VarId axis : loops.axes) extents.push_back(formula_.variable(axis).extent);
  return shared_out(extents, vectors, [&](const std::vector<Expr>& index, const Expr& lane) {
    Substitution inner = bound;
    for (std::size_t i = 0; i < index.size(); ++i) inner[loops.axes[i].index] = index[i];
    return what(inner, lane);
  });
}

Stmt GroupStage::shared_out(const std::vector<Dim>& extents, bool vectors, const AtIndex& what) {
  const std::int64_t together = vectors ? lanes : 1;
  return in_chunks(product(extents), together, [&](const Expr& first) {
    const VarId lane = lowering_.loop("v", together);
    Stmt body = what(index_at(first + Expr::variable(lane), extents), Expr::variable(lane));
    body = Stmt::loop(vectors ? LoopKind::Vector : LoopKind::Unrolled, lane, body);
    return afterwards ? Stmt::block({body, afterwards(first)}) : body;
  });
}

Stmt GroupStage::in_chunks(const Dim& count, std::int64_t together,
                           const std::function<Stmt(const Expr& first)>& what) {
  const Dim parts = floor_div(count, together);
  const VarId turn = lowering_.loop("i", ceil_div(parts, Dim(threads)));
  const Expr part = Expr::variable(turn) * Expr::index(threads) + Expr::variable(thread_);
  Stmt body = what(part * Expr::index(together));
  if (!te::divides(Dim(threads), parts)) body = Stmt::branch(part < Expr::size(parts), body);
  const Dim& turns = lowering_.kernel().variable(turn).extent;
  const bool few = turns.is_constant() && turns.constant() <= kMostTurns &&
                   (kir::code_size(lowering_.kernel(), body) * turns.constant() <= kLongestUnrolled ||
                    kir::indexes_registers(lowering_.kernel(), body, turn));
  return Stmt::loop(few ? LoopKind::Unrolled : LoopKind::Serial, turn, body);
}

Stmt GroupStage::in_turns(const Stage& stage, const std::vector<VarId>& free, Substitution bound) {
  const Side loops = loops_of(free, bound);
  const bool one = loops.axes.empty();
  if (!one || stage.reducer == te::Reducer::None || keeps_order()) {
    const bool vectors = stage.reducer == te::Reducer::None && by_vectors(loops) &&
                         has_vectors(lowering_.target(), formula_.buffer(stage.target).dtype);
    if (!one) {
      return shared_out(loops, bound, vectors,
                        [&](const Substitution& at, const Expr&) { return element(stage, at); });
    }
    return is_own(stage) ? element(stage, bound) : by_one_thread(element(stage, bound));
  }
  return together(stage, std::move(bound));
}

Stmt GroupStage::accumulate(kir::BufferId sum, const Stage& stage, const Substitution& bound,
                            const Expr& lane) {
  const DType dtype = stage.body.dtype();
  Lowering::Body body = lowering_.body(stage.body, bound);
  body.checks.push_back(
      Stmt::store(sum, {lane}, combined(stage.reducer, Expr::load(sum, dtype, {lane}), body.value)));
  return Stmt::block(std::move(body.checks));
}

Stmt GroupStage::in_order(kir::BufferId sum, const Stage& stage, Substitution bound) {
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
  return in_loops(LoopKind::Serial, loops, std::move(body));
}

// The one loop of a sum whose terms are vectors along it; none where there are others.
VarId GroupStage::vector_loop(const Stage& stage) const {
  VarId found;
  for (VarId axis : stage.reduction) {
    if (formula_.variable(axis).extent.is(1)) continue;
    if (found.valid()) return {};
    found = axis;
  }
  const bool vectors = found.valid() && has_vectors(lowering_.target(), stage.body.dtype()) &&
                       te::divides(Dim(kRowLanes), formula_.variable(found).extent) &&
                       comes_in_vectors(lowering_, stage.body, found);
  return vectors ? found : VarId();
}

// By one thread, each lane a part of the sum.
Stmt GroupStage::in_vectors(kir::BufferId sum, const Stage& stage, Substitution bound, VarId along) {
  const VarId turn =
      lowering_.loop(formula_.variable(along).name, floor_div(formula_.variable(along).extent, kRowLanes));
  const VarId lane = lowering_.loop("v", kRowLanes);
  for (VarId axis : stage.reduction) bound[axis.index] = Expr::index(0);
  bound[along.index] = Expr::variable(turn) * Expr::index(kRowLanes) + Expr::variable(lane);
  return Stmt::loop(LoopKind::Serial, turn,
                    Stmt::loop(LoopKind::Vector, lane, accumulate(sum, stage, bound, Expr::variable(lane))));
}

Stmt GroupStage::finish(const Stage& stage, const Substitution& bound, const Expr& reduced) {
  Lowering::Body value{{}, reduced};
  if (stage.finish.defined()) value = lowering_.body(stage.finish, bound, reduced);
  return lowering_.store(stage, bound, std::move(value));
}

Stmt GroupStage::element(const Stage& stage, const Substitution& bound) {
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
  const VarId along = sums_ == Sums::InParts ? vector_loop(stage) : VarId();
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

}  // namespace xyntra
