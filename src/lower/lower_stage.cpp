#include "lower/lower_stage.h"

#include <algorithm>
#include <array>
#include <bit>

#include "schedule/prepare/function_parts.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

std::optional<Alongside> made_alongside(const te::Formula& formula, const te::Stage& maker,
                                        const te::Stage& sum) {
  const bool pair = maker.kind == te::Stage::Kind::MapReduce && maker.reducer == te::Reducer::None &&
                    !maker.finish.defined() && sum.kind == te::Stage::Kind::MapReduce &&
                    !sum.reduction.empty() && sum.body->op == te::ExprOp::Load &&
                    sum.body->buffer == maker.target &&
                    formula.buffer(maker.target).dtype == maker.body.dtype();
  if (!pair) return std::nullopt;
  auto extent = [&](const Expr& loop) -> const Dim& { return formula.variable(loop->var).extent; };
  auto is_loop = [](const Expr& index) { return index->op == te::ExprOp::Var; };
  // Every turn of the maker's axis once: the same number of turns of a loop, or of one inside another.
  auto covers = [&](const Expr& index, const Dim& turns) {
    if (is_loop(index)) return extent(index) == turns;
    if (index->op != te::ExprOp::Add || index->operands[0]->op != te::ExprOp::Mul) return false;
    const Expr &outer = index->operands[0]->operands[0], &times = index->operands[0]->operands[1],
               &inner = index->operands[1];
    return is_loop(outer) && is_loop(inner) && times.is_constant() && outer->var != inner->var &&
           extent(inner).is(times->int_value) && extent(outer) * extent(inner) == turns;
  };
  Alongside made{&maker, {}};
  const std::vector<Expr> index = te::index_of(*sum.body);
  std::set<VarId> used;
  for (std::size_t d = 0; d < index.size(); ++d) {
    for (VarId loop : te::variables_of(index[d])) {
      if (!used.insert(loop).second) return std::nullopt;
    }
    if (te::same(maker.store[d], index[d])) {
      for (VarId loop : te::variables_of(index[d])) made.axes.try_emplace(loop.index, Expr::variable(loop));
      continue;
    }
    if (!is_loop(maker.store[d]) || !covers(index[d], extent(maker.store[d]))) return std::nullopt;
    if (!made.axes.try_emplace(maker.store[d]->var.index, index[d]).second) return std::nullopt;
  }
  for (VarId axis : maker.axes) {
    if (formula.variable(axis).extent.is(1)) made.axes.try_emplace(axis.index, Expr::index(0));
    if (made.axes.count(axis.index) == 0) return std::nullopt;
  }
  for (const auto* loops : {&sum.axes, &sum.reduction}) {
    for (VarId loop : *loops) {
      if (used.count(loop) == 0 && !formula.variable(loop).extent.is(1)) return std::nullopt;
    }
  }
  return made;
}

StageLowering::StageLowering(Lowering& lowering, const te::Stage& stage, std::vector<VarId> free,
                             bool keep_order)
    : StageVectorization(lowering, stage, std::move(free), keep_order), lowering_(lowering) {}

// ---- loops

Stmt StageLowering::around(const std::vector<VarId>& axes, LoopKind kind, Substitution bound,
                           const std::function<Stmt(Substitution)>& inner) const {
  std::vector<VarId> loops;
  for (VarId axis : axes) {
    const te::Variable& variable = lowering_.formula().variable(axis);
    if (variable.extent.is(1)) {
      bound[axis.index] = Expr::index(0);
      continue;
    }
    loops.push_back(lowering_.loop(variable.name, variable.extent));
    bound[axis.index] = Expr::variable(loops.back());
  }
  Stmt body = inner(std::move(bound));
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) body = Stmt::loop(kind, *loop, body);
  return body;
}

Stmt StageLowering::turns(Substitution bound, const std::function<Stmt(Substitution)>& inner) const {
  const auto taps = reduction_.end() - written_out();
  const std::vector<VarId> outer(reduction_.begin(), taps), last(taps, reduction_.end());
  return around(outer, LoopKind::Serial, std::move(bound),
                [&](Substitution at) { return around(last, LoopKind::Unrolled, std::move(at), inner); });
}

// How many of the innermost reduction loops are unrolled: the taps of a window beside lanes that leave its borders, or go by digits, each
// at other places. Masks and shuffles of a known tap are constants.
std::ptrdiff_t StageLowering::written_out() const {
  constexpr std::int64_t kMostTaps = 16;
  if (lowering_.target().kind != TargetKind::Cpu || !strip_ || strip_->reduces || strip_->width == 1)
    return 0;
  bool by_place = false;
  te::for_each_node(stage_.body, [&](const te::ExprNode& node) {
    by_place = by_place || node.op == te::ExprOp::LoadOr || te::chooses_by_place(node);
  });
  if (!by_place || !te::variables_of(stage_.body).contains(strip_->axis)) return 0;
  std::int64_t taps = 1;
  std::ptrdiff_t loops = 0;
  for (auto axis = reduction_.rbegin(); axis != reduction_.rend(); ++axis, ++loops) {
    const Dim& extent = lowering_.formula().variable(*axis).extent;
    if (!extent.is_constant() || extent.constant() > kMostTaps / taps) break;
    taps *= std::max<std::int64_t>(1, extent.constant());
  }
  return loops;
}

Stmt StageLowering::serial(Substitution bound) const {
  if (strip_ && transposes_in_registers(strip_->axis))
    return Stmt::block(squares(turned_axis(strip_->axis), LoopKind::Serial, bound));
  return around(free_, LoopKind::Serial, std::move(bound),
                [this](Substitution inner) { return strips(std::move(inner)); });
}

Stmt StageLowering::strips(Substitution bound) const {
  if (!strip_) return point(bound, {}, 1);
  if (strip_->reduces) return along_reduction(bound);
  return along_output(std::move(bound), 0, lowering_.formula().variable(strip_->axis).extent);
}

// Whether the elements that fill no vector run in the lanes of a masked one. Reductions inside would keep other lanes busy
// for nothing when there is but one.
bool StageLowering::masked(const Dim& rest) const {
  return lowering_.has_masks() && strip_->width > 1 && !rest.is(1);
}

// The elements of some vectors from `begin` on, as one loop.
Stmt StageLowering::vectors_at(const std::string& name, Substitution bound, const Expr& begin,
                               std::int64_t vectors) const {
  const std::int64_t lanes = vectors * strip_->width;
  const VarId lane = lowering_.loop(name, lanes);
  bound[strip_->axis.index] = begin + Expr::variable(lane);
  Stmt made = Stmt::loop(LoopKind::Vector, lane, point(bound, Expr::variable(lane), lanes));
  if (interior_) made = by_ends(name, bound, begin, lanes, std::move(made));
  for (std::int64_t v = vectors; v-- > 0;)
    made = after_fetching(bound, begin + Expr::index(v * strip_->width), std::move(made));
  return made;
}

// Lanes from `begin` on that all lie between the ends of what they read have a loop of their own.
Stmt StageLowering::by_ends(const std::string& name, Substitution bound, const Expr& begin,
                            std::int64_t lanes, Stmt otherwise) const {
  Expr inside;
  for (const Interior::Condition& condition : interior_->not_negative) {
    bound[strip_->axis.index] = condition.falls ? begin + Expr::index(lanes - 1) : begin;
    const Expr one = lowering_.at(condition.value, bound) >= Expr::index(0);
    inside = inside.defined() ? inside & one : one;
  }
  const VarId lane = lowering_.loop(name, lanes);
  bound[strip_->axis.index] = begin + Expr::variable(lane);
  Stmt run = Stmt::loop(LoopKind::Vector, lane, result(bound, value_of(interior_->body, bound)));
  return Stmt::branch(inside, std::move(run), std::move(otherwise));
}

// The same for elements [begin, end), which leave some lanes idle.
Stmt StageLowering::masked_vectors_at(const std::string& name, Substitution bound, const Dim& begin,
                                      const Dim& end, std::int64_t vectors) const {
  const std::int64_t lanes = vectors * strip_->width;
  const VarId lane = lowering_.loop(name, lanes);
  const Expr position = Expr::size(begin) + Expr::variable(lane);
  bound[strip_->axis.index] = position;
  return Stmt::loop(LoopKind::Vector, lane,
                    point(bound, Expr::variable(lane), lanes, position < Expr::size(end)));
}

// Some groups of vectors from `begin` on, function by function (function_parts.h).
Stmt StageLowering::functions_in_turns(Substitution bound, const Expr& begin) const {
  const std::int64_t lanes = together_ * strip_->width;
  std::vector<Stmt> made;
  auto turn = [&](const std::function<Stmt(const Expr& number)>& one) {
    const VarId i = lowering_.loop("i", kTurns), lane = lowering_.loop("l", lanes);
    const Expr number = Expr::variable(i) * Expr::index(lanes) + Expr::variable(lane);
    bound[strip_->axis.index] = begin + number;
    made.push_back(Stmt::loop(LoopKind::Serial, i, Stmt::loop(LoopKind::Vector, lane, one(number))));
  };
  std::vector<Expr> parts = function_parts(stage_.body);
  parts.push_back(stage_.body);
  std::vector<kir::BufferId> places;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    turn([&](const Expr& number) {
      std::vector<Expr> known;  // as they are once what comes before them is read from its place
      te::Rewriter with_kept([&](const Expr& expr) {
        const auto found = std::ranges::find_if(known, [&](const Expr& one) { return te::same(expr, one); });
        if (found == known.end()) return Expr();
        const auto k = static_cast<std::size_t>(found - known.begin());
        return Expr::load(places[k], parts[k].dtype(), {number});
      });
      for (std::size_t k = 0; k < places.size(); ++k) {
        te::Rewriter before(with_kept);
        known.push_back(before(lowering_.body(parts[k], bound).value));
      }
      Lowering::Body value = lowering_.body(parts[p], bound);
      value.value = te::Rewriter(with_kept)(value.value);
      if (p + 1 == parts.size()) return result(bound, std::move(value));
      const kir::BufferId place = lowering_.scratch("c", parts[p].dtype(), {kTurns * lanes}, Scope::Shared);
      value.checks.push_back(Stmt::store(place, {number}, value.value));
      places.push_back(place);
      return Stmt::block(std::move(value.checks));
    });
  }
  return Stmt::block(std::move(made));
}

// Elements [first, first + count) of the strip: whole vectors, then the rest one by one.
Stmt StageLowering::along_output(Substitution bound, const Dim& first, const Dim& count) const {
  const std::string& name = lowering_.formula().variable(strip_->axis).name;
  const std::int64_t width = strip_->width;
  std::vector<Stmt> parts;
  Dim end = first + count;  // `first` is a multiple of the width
  Dim whole = floor_div(end, width) - floor_div(first, width), rest = count - whole * width;
  auto blocks = [&](const Dim& start, const Dim& many, std::int64_t vectors) {
    if (many.is(0)) return;
    const VarId block = lowering_.loop(name + "b", many);
    const Expr begin = Expr::size(start) + Expr::variable(block) * Expr::index(vectors * width);
    parts.push_back(Stmt::loop(LoopKind::Serial, block, vectors_at(name + "l", bound, begin, vectors)));
  };
  const Dim groups = together_ > 1 && first.is(0) ? floor_div(end, together_ * width) : Dim(0);
  const Dim rounds = has_function_parts() ? floor_div(groups, kTurns) : Dim(0);
  if (!rounds.is(0)) {
    const VarId round = lowering_.loop(name + "b", rounds);
    const Expr begin = Expr::variable(round) * Expr::index(kTurns * together_ * width);
    parts.push_back(Stmt::loop(LoopKind::Serial, round, functions_in_turns(bound, begin)));
  }
  blocks(first + rounds * (kTurns * together_ * width), groups - rounds * kTurns, together_);
  const Dim left = end - first - groups * (together_ * width);
  if (together_ > 1 && masked(left) && left.is_constant() && left.constant() > width &&
      left.constant() < together_ * width && (has_functions() || adds_up_long_rows())) {
    // Vectors that are left go together, too: chains of arithmetic would wait one after another.
    const auto vectors = static_cast<std::uint64_t>((left.constant() + width - 1) / width);
    parts.push_back(masked_vectors_at(name + "l", bound, end - left, end,
                                      static_cast<std::int64_t>(std::bit_ceil(vectors))));
    return Lowering::where_any(end, Stmt::block(std::move(parts)));
  }
  blocks(first + groups * (together_ * width), whole - groups * together_, 1);
  if (!rest.is(0) && masked(rest)) {
    parts.push_back(where_left(first + whole * width, end,
                               masked_vectors_at(name + "l", bound, first + whole * width, end, 1)));
  } else if (!rest.is(0)) {
    VarId one = lowering_.loop(name + "r", rest);
    bound[strip_->axis.index] = Expr::size(first + whole * width) + Expr::variable(one);
    parts.push_back(Stmt::loop(LoopKind::Serial, one, point(bound, {}, 1)));
  }
  return Lowering::where_any(end, Stmt::block(std::move(parts)));
}

// What a reduction takes in next, and before it what is made along with it.
Lowering::Body StageLowering::term(const Substitution& bound) const {
  Lowering::Body body = lowering_.body(stage_.body, bound);
  if (alongside_.stage == nullptr) return body;
  Substitution own = bound;
  for (const auto& [axis, index] : alongside_.axes) own[axis] = lowering_.at(index, bound);
  Lowering::Body made = lowering_.body(alongside_.stage->body, own);
  body.checks.insert(body.checks.begin(), lowering_.store(*alongside_.stage, own, std::move(made)));
  return body;
}

// Of a stage that reduces nothing.
Lowering::Body StageLowering::value_of(const Expr& body, const Substitution& bound) const {
  Lowering::Body value = lowering_.body(body, bound);
  if (stage_.finish.defined()) {
    Lowering::Body finish = lowering_.body(stage_.finish, bound, value.value);
    value.checks.insert(value.checks.end(), finish.checks.begin(), finish.checks.end());
    value.value = std::move(finish.value);
  }
  return value;
}

Stmt StageLowering::result(const Substitution& bound, Lowering::Body value) const {
  return lowering_.store(stage_, bound, std::move(value), stream_);
}

// The vector that starts at `first`, and before it a hint that the next work item's is wanted.
Stmt StageLowering::after_fetching(Substitution bound, Expr first, Stmt vector) const {
  if (ahead_.loads.empty()) return vector;
  if (ahead_.axis.valid()) {
    Expr& turn = bound[ahead_.axis.index];
    turn = ahead_.next.defined() ? ahead_.next : turn + Expr::index(ahead_.turns);
  }
  bound[strip_->axis.index] = first + Expr::index(ahead_.distance);
  std::vector<Stmt> statements;
  for (const Expr& load : ahead_.loads) {
    // What is read along a reduction inside of the vector has no place out here.
    const bool has_place =
        std::ranges::all_of(te::variables_of(load), [&](VarId var) { return bound.contains(var.index); });
    if (!has_place) continue;
    kir::Operand place{lowering_.placed(load->buffer), {}, {}};
    for (const Expr& index : te::index_of(*load)) place.index.push_back(lowering_.at(index, bound));
    statements.push_back(
        Stmt::call(ahead_.far ? kir::Intrinsic::PrefetchL2 : kir::Intrinsic::Prefetch, {std::move(place)}));
  }
  statements.push_back(std::move(vector));
  return Stmt::block(std::move(statements));
}

// One element, or one in each of `width` lanes.
// With a condition, what some lanes do. A reduction begins in all of them: what idle lanes held before is not waited for.
Stmt StageLowering::point(const Substitution& bound, const Expr& lane, std::int64_t width,
                          const Expr& when) const {
  auto where = [&](Stmt body) { return when.defined() ? Stmt::branch(when, std::move(body)) : body; };
  if (stage_.kind == te::Stage::Kind::Scatter) {
    Lowering::Body value = lowering_.body(stage_.body, bound);
    Lowering::Body guard;
    if (stage_.guard.defined()) guard = lowering_.body(stage_.guard, bound);
    static constexpr std::array kReducers{te::Reducer::None, te::Reducer::Sum, te::Reducer::Product,
                                          te::Reducer::Max, te::Reducer::Min};
    te::Reducer reducer = kReducers.at(static_cast<std::size_t>(stage_.combiner));
    DType dtype = lowering_.formula().buffer(stage_.target).dtype;
    Expr next = te::cast(dtype, std::move(value.value));
    if (reducer != te::Reducer::None) next = combined(reducer, lowering_.load_target(stage_, bound), next);
    Stmt update = lowering_.store(stage_, bound, Lowering::Body{std::move(value.checks), std::move(next)});
    if (!guard.value.defined()) return where(std::move(update));
    std::vector<Stmt> statements = std::move(guard.checks);
    statements.push_back(Stmt::branch(std::move(guard.value), std::move(update)));
    return where(Stmt::block(std::move(statements)));
  }
  if (stage_.reducer == te::Reducer::None) return where(result(bound, value_of(stage_.body, bound)));
  DType dtype = stage_.body.dtype();
  kir::BufferId sum = lowering_.scratch("a", dtype, lane.defined() ? Shape{width} : Shape{}, Scope::Register);
  std::vector<Expr> place;
  if (lane.defined()) place.push_back(lane);
  Stmt begin = Stmt::store(sum, place, identity_of(stage_.reducer, dtype));
  std::vector<Stmt> statements;
  if (sums_by_blocks()) {
    statements.push_back(block_sums(bound, sum, place));
  } else if (alongside_.stage == nullptr && extremes_in_chains()) {
    statements.push_back(chained_extremes(bound, sum, place));
  } else {
    statements.push_back(
        turns(bound, [&](const Substitution& inner) { return add_term(sum, place, inner); }));
  }
  Expr reduced = Expr::load(sum, dtype, place);
  Lowering::Body value{{}, reduced};
  if (stage_.finish.defined()) value = lowering_.body(stage_.finish, bound, reduced);
  statements.push_back(result(bound, std::move(value)));
  return Stmt::block({std::move(begin), where(Stmt::block(std::move(statements)))});
}

// A masked vector is there for sizes that leave elements over.
Stmt StageLowering::where_left(const Dim& done, const Dim& end, Stmt body) {
  if (end.is_constant()) return body;
  return Stmt::branch(Expr::size(done) < Expr::size(end), std::move(body));
}

}  // namespace xyntra
