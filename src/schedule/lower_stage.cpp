#include "schedule/lower_stage.h"

#include <algorithm>
#include <array>
#include <bit>

#include "schedule/function_parts.h"
#include "te/effort.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kRegistersEach = 8;  // of vectors whose functions go together
constexpr std::int64_t kGatherCost =
    250;  // of a lane that has to be fetched by itself; a vector access is 100
constexpr std::int64_t kBoundedCost =
    120;  // of one that is fetched beside its neighbours: edges are repeated
constexpr std::int64_t kDividedPlace = 1000;  // of a lane that finds its place by a division
constexpr std::int64_t kCrowdedCost = 500;  // where all lanes compete for one set of the first cache
constexpr std::int64_t kSetsApart = 4096 * 8;  // bits: what lies so far apart shares a set
constexpr std::int64_t kBegin = 200;  // of a loop over one strip
constexpr std::int64_t kShuffle = 200;  // of two vectors
constexpr std::int64_t kElements = 1024;  // that costs are counted for, so that fractions are not lost

void drop(std::vector<VarId>& loops, VarId one) { std::erase(loops, one); }

}  // namespace

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

// Largest and smallest elements are the same in any order, zeros of both signs and NaN included, and so are sums of integers.
static bool depends_on_order(const te::Stage& stage) {
  const bool adds = stage.reducer == te::Reducer::Sum || stage.reducer == te::Reducer::Product;
  const bool picks = stage.reducer == te::Reducer::Max || stage.reducer == te::Reducer::Min;
  return !picks && !(adds && !is_float(stage.body.dtype()));
}

StageLowering::StageLowering(Lowering& lowering, const te::Stage& stage, std::vector<VarId> free,
                             bool keep_order)
    : lowering_(lowering),
      stage_(stage),
      free_(std::move(free)),
      reduction_(stage.reduction),
      keep_order_(keep_order && depends_on_order(stage)) {
  const bool plain = stage.kind == te::Stage::Kind::MapReduce;
  if (plain && lowering.leaves(stage.target)) stream_ = lowering.outgrows_caches(stage.target);
  strip_ = choose_strip();
  if (!strip_) return;
  together_ = vectors_together();
  interior_ = interior_along(strip_->axis, strip_->reduces);
  if (has_functions() && stream_.defined()) ahead_ = some_elements_ahead();
  if (plain && lays_out_blocks()) ahead_ = some_blocks_ahead();
  drop(free_, strip_->axis);
  drop(reduction_, strip_->axis);
}

// ---- the strip

bool StageLowering::has_functions() const { return functions_in(stage_.body) || functions_in(stage_.finish); }

// Memory is asked early enough that it has answered when the element's turn comes, across the ends of pages too, where
// machines stop to look ahead by themselves.
Ahead StageLowering::some_elements_ahead() const {
  constexpr std::int64_t kBytes = 8192;
  Ahead made;
  std::set<te::BufferId> asked;
  te::Visited seen;
  std::vector<Expr> waiting{stage_.body};
  while (!waiting.empty()) {
    const Expr expr = waiting.back();
    waiting.pop_back();
    if (!seen.insert(expr.address())) continue;
    waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
    const bool input = expr->op == te::ExprOp::Load &&
                       lowering_.formula().buffer(expr->buffer).role == te::BufferRole::Input;
    if (!input || !lowering_.outgrows_caches(expr->buffer).defined()) continue;
    const std::vector<Expr> indices = te::index_of(*expr);
    // Where data says what is read, that of later turns may not be there.
    if (std::ranges::any_of(indices, te::reads_data)) continue;
    // Memory is asked before a reduction begins, and what it reads depends on its loops.
    const bool reduced = std::ranges::any_of(stage_.reduction, [&](VarId loop) {
      return std::ranges::any_of(indices,
                                 [&](const Expr& index) { return te::variables_of(index).contains(loop); });
    });
    if (reduced) continue;
    const auto stride = lowering_.stride(expr->buffer, indices, strip_->axis);
    if (!stride || !stride->is(1) || !asked.insert(expr->buffer).second) continue;
    made.loads.push_back(expr);
    made.distance = kBytes * 8 / bits_of(expr.dtype());
  }
  return made;
}

// Elements of an input beyond the second cache, in blocks for others, such as rows of factors for tiles.
bool StageLowering::lays_out_blocks() const {
  const te::Formula& formula = lowering_.formula();
  const Target& target = lowering_.target();
  const Expr& load = copied();
  const bool copies = target.kind == TargetKind::Cpu && stage_.reducer == te::Reducer::None &&
                      load->op == te::ExprOp::Load &&
                      formula.buffer(stage_.target).role == te::BufferRole::Temporary &&
                      formula.variable(strip_->axis).extent.is_constant();
  if (!copies) return false;
  const te::BufferInfo& from = formula.buffer(load->buffer);
  return from.role == te::BufferRole::Input &&
         lowering_.size(product(from.shape)) / 8 * bits_of(from.dtype) > target.l2_bytes;
}

const Expr& StageLowering::copied() const {
  return stage_.body->op == te::ExprOp::Cast ? stage_.body->operands[0] : stage_.body;
}

// A strip is as short as a block, and the next one lies behind it in memory. A second cache may not look ahead by itself.
Ahead StageLowering::some_blocks_ahead() const {
  constexpr std::int64_t kBytes = 2048;
  const Expr& load = copied();
  const std::vector<Expr> index = te::index_of(*load);
  const std::int64_t block = lowering_.formula().variable(strip_->axis).extent.constant();
  auto is = [&](VarId axis, std::int64_t stride) {
    const auto found = lowering_.stride(load->buffer, index, axis);
    return found && found->is(stride);
  };
  if (!is(strip_->axis, 1)) return {};
  const std::int64_t turns = std::max<std::int64_t>(1, kBytes * 8 / bits_of(load.dtype()) / block);
  for (VarId axis : stage_.axes) {
    if (is(axis, block)) return {{load}, axis, {}, turns, 0};
  }
  return {};
}

// A function is a long chain of arithmetic in which every step waits for the one before: machines look ahead, but not
// over several such chains. Vectors whose steps alternate keep them busy, as many as their registers hold. What goes past the
// caches has to lie at multiples of a vector's size, which is looked at once for all of them.
std::int64_t StageLowering::vectors_together() const {
  const bool finishes = stage_.finish.defined() && !functions_in(stage_.body) && functions_in(stage_.finish);
  if (strip_->reduces || strip_->width != lowering_.lanes()) return 1;
  if (stage_.reducer != te::Reducer::None && !finishes) return 1;
  const bool long_chains = has_functions();
  const std::int64_t together = lowering_.target().vector_registers / kRegistersEach;
  const std::int64_t vectors =
      lowering_.size(lowering_.formula().variable(strip_->axis).extent) / strip_->width;
  if ((long_chains || stream_.defined()) && together > 1 && vectors >= 2 * together) return together;
  if (!long_chains || vectors < 2) return 1;
  return std::min(together, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(vectors))));
}

namespace {

// Whether an index goes through a quotient or remainder that moves with the loop and is no shift.
bool divides_along(const Expr& index, VarId axis) {
  bool found = false;
  te::for_each_node(index, [&](const ExprNode& node) {
    if (node.op != ExprOp::FloorDiv && node.op != ExprOp::Mod) return;
    const Expr& divisor = node.operands[1];
    const bool shift = divisor->op == ExprOp::Const && divisor->int_value > 0 &&
                       std::has_single_bit(static_cast<std::uint64_t>(divisor->int_value));
    found = found || (!shift && te::variables_of(node.operands[0]).contains(axis));
  });
  return found;
}

// An index without the bounds that keep it inside where it moves with the loop: max(min(i - 2, 20), 0) is i - 2.
Expr unbounded(Expr index, VarId axis) {
  while (index->op == ExprOp::Min || index->op == ExprOp::Max) {
    const bool first = te::variables_of(index->operands[0]).contains(axis);
    if (first == te::variables_of(index->operands[1]).contains(axis)) break;
    index = index->operands[first ? 0 : 1];
  }
  return index;
}

}  // namespace

// What one result costs when a loop runs in lanes, in hundredths of a vector access. No loop: one by one.
std::int64_t StageLowering::cost_along(VarId axis, bool reduces) const {
  constexpr std::int64_t kQuarter = 50;  // of a cycle; an access takes two
  constexpr std::int64_t kExtreme = 12 * kQuarter, kChained = 5 * kQuarter;
  constexpr std::int64_t kFold = 6 * 200;  // steps of adding up the lanes of a sum
  // Lanes that are guarded by more than their own place have no constant masks.
  const te::IndexAlgebra algebra(lowering_.formula());
  auto guarded = [&](const ExprNode& load) {
    if (load.op != ExprOp::Load || !axis.valid()) return false;
    const std::vector<Expr> index = te::index_of(load);
    const Shape& shape = lowering_.formula().buffer(load.buffer).shape;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::set<VarId> used = te::variables_of(index[d]);
      const bool others = std::ranges::any_of(
          stage_.axes, [&](VarId other) { return other != axis && used.contains(other); });
      if (used.contains(axis) && others && !algebra.within(index[d], 0, shape[d])) return true;
    }
    return false;
  };
  auto access = [&](te::BufferId buffer, std::span<const Expr> index, bool masks = true) -> std::int64_t {
    const auto stride = lowering_.stride(buffer, index, axis);
    if (stride && stride->is(0)) return 25;
    if (stride && stride->is(1)) return 100;
    const std::int64_t width =
        axis.valid() ? lowering_.vector_width(lowering_.formula().variable(axis).extent) : 1;
    const bool near = stride && stride->is_constant() && stride->constant() > 1 &&
                      stride->constant() <= kNearLanes && width >= kNearLanes && masks;
    if (near) return stride->constant() * (100 + kShuffle);
    if (!stride && axis.valid() && lowering_.within_a_vector(buffer, index, axis, width))
      return 100 + kShuffle;
    const bool one_set =
        stride && stride->is_constant() && stride->constant() != 0 &&
        stride->constant() % (kSetsApart / bits_of(lowering_.formula().buffer(buffer).dtype)) == 0;
    // Quotients and remainders take no vector instruction: each lane has its own.
    const bool divides = !stride && axis.valid() && std::ranges::any_of(index, [&](const Expr& place) {
      return divides_along(place, axis);
    });
    if (!stride && axis.valid() && !divides) {
      std::vector<Expr> inside(index.begin(), index.end());
      for (Expr& place : inside) place = unbounded(place, axis);
      const auto between = lowering_.stride(buffer, inside, axis);
      if (between && between->is(1)) return kBoundedCost * width;
    }
    return ((one_set ? kCrowdedCost : kGatherCost) + (divides ? kDividedPlace : 0)) * width;
  };
  auto cost_of = [&](const Expr& expr) {
    std::int64_t cost = 25 + kQuarter * te::effort_of(expr);
    te::for_each_node(expr, [&](const ExprNode& node) {
      if (te::is_load(node)) cost += access(node.buffer, te::index_of(node), !guarded(node));
    });
    return cost;
  };
  std::int64_t terms = 1;
  for (VarId loop : reduction_)
    terms *= std::max<std::int64_t>(1, lowering_.size(lowering_.formula().variable(loop).extent));
  // The larger of two, or NaN: a chain of some instructions, each of which waits.
  const bool extremes =
      !reduces && (stage_.reducer == te::Reducer::Max || stage_.reducer == te::Reducer::Min);
  std::int64_t of_terms = cost_of(stage_.body);
  if (const auto interior = interior_along(axis, reduces)) {
    // The vectors at both ends compute each place. Where functions go over them in turns, all do, in every turn.
    const std::int64_t together =
        has_functions() ? std::max<std::int64_t>(1, lowering_.target().vector_registers / kRegistersEach) : 1;
    const std::int64_t rounds =
        lowering_.size(lowering_.formula().variable(axis).extent) / (together * lowering_.lanes());
    const std::int64_t between = cost_of(interior->body), ends = std::min<std::int64_t>(2, rounds);
    if (has_function_parts()) {
      of_terms += (of_terms - between) * std::ssize(function_parts(stage_.body));
    } else if (rounds > 0) {
      of_terms = (of_terms * ends + between * (rounds - ends)) / rounds;
    }
  }
  if (extremes) of_terms += extremes_in_chains() ? kChained : kExtreme;
  std::int64_t of_result = stage_.finish.defined() ? cost_of(stage_.finish) : 0;
  of_result += reduces ? 100 : access(stage_.target, stage_.store, lowering_.has_masks());
  if (!axis.valid()) return (of_terms + of_result / terms) * kElements;
  const Dim& extent = lowering_.formula().variable(axis).extent;
  const std::int64_t count = std::max<std::int64_t>(1, lowering_.size(extent));
  std::int64_t steps = lowering_.vector_steps(extent);
  // Vectors that are left over go together where there are functions: two, or four with an idle one (along_output).
  if (!reduces && steps % 4 == 3 && count % lowering_.lanes() != 0 && has_functions()) ++steps;
  if (reduces) return (of_terms * steps + kFold) * kElements / count + of_result * kElements / terms;
  return ((of_terms + of_result / terms) * steps + kBegin / terms) * kElements / count;
}

// Where ends are a small part of what there is.
std::optional<Interior> StageLowering::interior_along(VarId axis, bool reduces) const {
  constexpr std::int64_t kLeastVectors = 4;
  const bool maps = stage_.kind == te::Stage::Kind::MapReduce && stage_.reducer == te::Reducer::None;
  if (!maps || reduces || !axis.valid() || lowering_.target().kind != TargetKind::Cpu) return std::nullopt;
  const std::int64_t turns = lowering_.size(lowering_.formula().variable(axis).extent);
  if (turns < kLeastVectors * lowering_.lanes()) return std::nullopt;
  return interior_of(lowering_, stage_.body, axis);
}

std::int64_t StageLowering::cycles() const {
  constexpr std::int64_t kPerAccess = 100 * kElements * 2;  // of cost_: an access takes half a cycle
  constexpr std::int64_t kAtOnce = 5,
                         kAlone = 2;  // chains of arithmetic that wait for themselves take longer
  __extension__ typedef __int128 Int128;
  Int128 elements = 1;
  for (const auto* loops : {&stage_.axes, &stage_.reduction}) {
    for (VarId loop : *loops)
      elements *= std::max<std::int64_t>(0, lowering_.size(lowering_.formula().variable(loop).extent));
  }
  Int128 total = elements * cost_ * 1000 / kPerAccess;
  if (has_functions() && together_ == 1) total = total * kAtOnce / kAlone;
  if (has_functions() && together_ == 2) total = total * kAtOnce / 4;
  // Several functions that go together spill their constants.
  const bool in_turns =
      strip_ && has_function_parts() &&
      lowering_.size(lowering_.formula().variable(strip_->axis).extent) >= kTurns * together_ * strip_->width;
  if (has_functions() && !in_turns && !function_parts(stage_.body).empty()) total = total * 4 / 3;
  return total > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(total);
}

std::optional<Strip> StageLowering::choose_strip() {
  if (stage_.kind == te::Stage::Kind::Scatter || lowering_.lanes() == 1) return std::nullopt;
  bool packed = bits_of(lowering_.formula().buffer(stage_.target).dtype) < 8;
  te::for_each_node(stage_, [&](const ExprNode& node) {
    packed = packed || (te::is_load(node) && bits_of(lowering_.formula().buffer(node.buffer).dtype) < 8);
  });
  if (packed) return std::nullopt;  // several elements share a byte
  std::optional<Strip> best;
  cost_ = cost_along({}, false);
  auto consider = [&](VarId axis, bool reduces) {
    const Dim& extent = lowering_.formula().variable(axis).extent;
    std::int64_t turns = lowering_.size(extent);
    if (turns < 2) return;
    const std::int64_t cost = cost_along(axis, reduces);
    // Squares that are transposed in registers take less than what is counted, one lane after another.
    const bool squares = best && !best->reduces && turned_axis(best->axis).valid();
    if (best && cost >= (squares ? cost_ * 3 / 4 : cost_)) return;
    cost_ = cost;
    best = Strip{axis, reduces, lowering_.vector_width(extent)};
  };
  for (auto axis = free_.rbegin(); axis != free_.rend(); ++axis) consider(*axis, false);
  if (!keep_order_) {
    for (auto axis = reduction_.rbegin(); axis != reduction_.rend(); ++axis) consider(*axis, true);
  }
  return best;
}

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

bool StageLowering::has_function_parts() const {
  return stage_.reducer == te::Reducer::None && stage_.kind == te::Stage::Kind::MapReduce &&
         !stage_.finish.defined() && stage_.body.dtype() == DType::F32 && ahead_.loads.empty() &&
         !function_parts(stage_.body).empty();
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
      left.constant() < together_ * width && has_functions()) {
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
  } else if (extremes_in_chains()) {
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
