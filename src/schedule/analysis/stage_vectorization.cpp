#include "schedule/analysis/stage_vectorization.h"

#include <algorithm>
#include <bit>

#include "schedule/prepare/function_parts.h"
#include "te/cost/effort.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
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

// Largest and smallest elements are the same in any order, zeros of both signs and NaN included, and so are sums of integers.
bool depends_on_order(const te::Stage& stage) {
  const bool adds = stage.reducer == te::Reducer::Sum || stage.reducer == te::Reducer::Product;
  const bool picks = stage.reducer == te::Reducer::Max || stage.reducer == te::Reducer::Min;
  return !picks && !(adds && !is_float(stage.body.dtype()));
}

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

StageVectorization::StageVectorization(const AccessAnalysis& analysis, const te::Stage& stage,
                                       std::vector<VarId> free, bool keep_order)
    : analysis_(analysis),
      stage_(stage),
      free_(std::move(free)),
      reduction_(stage.reduction),
      keep_order_(keep_order && depends_on_order(stage)) {
  const bool plain = stage.kind == te::Stage::Kind::MapReduce;
  if (plain && analysis.leaves(stage.target)) stream_ = analysis.outgrows_caches(stage.target);
  strip_ = choose_strip();
  if (!strip_) return;
  together_ = vectors_together();
  interior_ = interior_along(strip_->axis, strip_->reduces);
  if (has_functions() && stream_.defined()) ahead_ = some_elements_ahead();
  if (plain && lays_out_blocks()) ahead_ = some_blocks_ahead();
  drop(free_, strip_->axis);
  drop(reduction_, strip_->axis);
}

bool StageVectorization::has_functions() const {
  return functions_in(stage_.body) || functions_in(stage_.finish);
}

// Memory is asked early enough that it has answered when the element's turn comes, across the ends of pages too, where
// machines stop to look ahead by themselves.
Ahead StageVectorization::some_elements_ahead() const {
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
                       analysis_.formula().buffer(expr->buffer).role == te::BufferRole::Input;
    if (!input || !analysis_.outgrows_caches(expr->buffer).defined()) continue;
    const std::vector<Expr> indices = te::index_of(*expr);
    // Where data says what is read, that of later turns may not be there.
    if (std::ranges::any_of(indices, te::reads_data)) continue;
    // Memory is asked before a reduction begins, and what it reads depends on its loops.
    const bool reduced = std::ranges::any_of(stage_.reduction, [&](VarId loop) {
      return std::ranges::any_of(indices,
                                 [&](const Expr& index) { return te::variables_of(index).contains(loop); });
    });
    if (reduced) continue;
    const auto stride = analysis_.stride(expr->buffer, indices, strip_->axis);
    if (!stride || !stride->is(1) || !asked.insert(expr->buffer).second) continue;
    made.loads.push_back(expr);
    made.distance = kBytes * 8 / bits_of(expr.dtype());
  }
  return made;
}

// Elements of an input beyond the second cache, in blocks for others, such as rows of factors for tiles.
bool StageVectorization::lays_out_blocks() const {
  const te::Formula& formula = analysis_.formula();
  const Target& target = analysis_.target();
  const Expr& load = copied();
  const bool copies = target.kind == TargetKind::Cpu && stage_.reducer == te::Reducer::None &&
                      load->op == te::ExprOp::Load &&
                      formula.buffer(stage_.target).role == te::BufferRole::Temporary &&
                      formula.variable(strip_->axis).extent.is_constant();
  if (!copies) return false;
  const te::BufferInfo& from = formula.buffer(load->buffer);
  return from.role == te::BufferRole::Input &&
         analysis_.size(product(from.shape)) / 8 * bits_of(from.dtype) > target.l2_bytes;
}

const Expr& StageVectorization::copied() const {
  return stage_.body->op == te::ExprOp::Cast ? stage_.body->operands[0] : stage_.body;
}

// A strip is as short as a block, and the next one lies behind it in memory. A second cache may not look ahead by itself.
Ahead StageVectorization::some_blocks_ahead() const {
  constexpr std::int64_t kBytes = 2048;
  const Expr& load = copied();
  const std::vector<Expr> index = te::index_of(*load);
  const std::int64_t block = analysis_.formula().variable(strip_->axis).extent.constant();
  auto is = [&](VarId axis, std::int64_t stride) {
    const auto found = analysis_.stride(load->buffer, index, axis);
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
// over several such chains, nor over long sums. Vectors whose steps alternate keep them busy, as many as their registers hold. What goes past the
// caches has to lie at multiples of a vector's size, which is looked at once for all of them.
std::int64_t StageVectorization::vectors_together() const {
  const bool finishes = stage_.finish.defined() && !functions_in(stage_.body) && functions_in(stage_.finish);
  if (strip_->reduces || strip_->width != analysis_.lanes()) return 1;
  if (adds_up_long_rows()) {
    const std::int64_t steps = analysis_.vector_steps(analysis_.formula().variable(strip_->axis).extent);
    const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(steps)));
    return std::min(analysis_.target().vector_registers / 2, whole);
  }
  if (stage_.reducer != te::Reducer::None && !finishes) return 1;
  const bool long_chains = has_functions();
  const std::int64_t together = analysis_.target().vector_registers / kRegistersEach;
  const std::int64_t vectors =
      analysis_.size(analysis_.formula().variable(strip_->axis).extent) / strip_->width;
  if ((long_chains || stream_.defined()) && together > 1 && vectors >= 2 * together) return together;
  if (!long_chains || vectors < 2) return 1;
  return std::min(together, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(vectors))));
}

// Each addition waits for the one before.
bool StageVectorization::adds_up_long_rows() const {
  constexpr std::int64_t kLong = 16;
  std::int64_t terms = 1;
  for (VarId loop : stage_.reduction) terms *= analysis_.size(analysis_.formula().variable(loop).extent);
  bool by_place = false;
  te::for_each_node(stage_.body, [&](const ExprNode& node) {
    by_place = by_place || node.op == ExprOp::LoadOr || te::chooses_by_place(node);
  });
  return stage_.reducer == te::Reducer::Sum && analysis_.target().kind == TargetKind::Cpu && terms >= kLong &&
         !by_place && !functions_in(stage_.body);
}

// What one result costs when a loop runs in lanes, in hundredths of a vector access. No loop: one by one.
std::int64_t StageVectorization::cost_along(VarId axis, bool reduces) const {
  constexpr std::int64_t kQuarter = 50;  // of a cycle; an access takes two
  constexpr std::int64_t kExtreme = 12 * kQuarter, kChained = 5 * kQuarter;
  constexpr std::int64_t kFold = 6 * 200;  // steps of adding up the lanes of a sum
  // Lanes that are guarded by more than their own place have no constant masks.
  const te::IndexAlgebra algebra(analysis_.formula());
  auto guarded = [&](const ExprNode& load) {
    if (load.op != ExprOp::Load || !axis.valid()) return false;
    const std::vector<Expr> index = te::index_of(load);
    const Shape& shape = analysis_.formula().buffer(load.buffer).shape;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::set<VarId> used = te::variables_of(index[d]);
      const bool others = std::ranges::any_of(
          stage_.axes, [&](VarId other) { return other != axis && used.contains(other); });
      if (used.contains(axis) && others && !algebra.within(index[d], 0, shape[d])) return true;
    }
    return false;
  };
  std::optional<bool> transposes;  // asked for once, and only where lanes of an operand lie apart
  auto access = [&](te::BufferId buffer, std::span<const Expr> index, bool masks = true) -> std::int64_t {
    const auto stride = analysis_.stride(buffer, index, axis);
    if (stride && stride->is(0)) return 25;
    if (stride && stride->is(1)) return 100;
    if (stride && axis.valid() && !reduces && !transposes) transposes = transposes_in_registers(axis);
    if (stride && transposes.value_or(false)) return 100 + kShuffle / 2;
    const std::int64_t width =
        axis.valid() ? analysis_.vector_width(analysis_.formula().variable(axis).extent) : 1;
    const bool near = stride && stride->is_constant() && stride->constant() > 1 &&
                      stride->constant() <= kNearLanes && width >= kNearLanes && masks;
    if (near) return stride->constant() * (100 + kShuffle);
    if (!stride && axis.valid() && analysis_.within_a_vector(buffer, index, axis, width))
      return 100 + kShuffle;
    const bool one_set =
        stride && stride->is_constant() && stride->constant() != 0 &&
        stride->constant() % (kSetsApart / bits_of(analysis_.formula().buffer(buffer).dtype)) == 0;
    // Quotients and remainders take no vector instruction: each lane has its own.
    const bool divides = !stride && axis.valid() && std::ranges::any_of(index, [&](const Expr& place) {
      return divides_along(place, axis);
    });
    if (!stride && axis.valid() && !divides) {
      std::vector<Expr> inside(index.begin(), index.end());
      for (Expr& place : inside) place = unbounded(place, axis);
      const auto between = analysis_.stride(buffer, inside, axis);
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
    terms *= std::max<std::int64_t>(1, analysis_.size(analysis_.formula().variable(loop).extent));
  // The larger of two, or NaN: a chain of some instructions, each of which waits.
  const bool extremes =
      !reduces && (stage_.reducer == te::Reducer::Max || stage_.reducer == te::Reducer::Min);
  std::int64_t of_terms = cost_of(stage_.body);
  if (const auto interior = interior_along(axis, reduces)) {
    // The vectors at both ends compute each place. Where functions go over them in turns, all do, in every turn.
    const std::int64_t together =
        has_functions() ? std::max<std::int64_t>(1, analysis_.target().vector_registers / kRegistersEach) : 1;
    const std::int64_t rounds =
        analysis_.size(analysis_.formula().variable(axis).extent) / (together * analysis_.lanes());
    const std::int64_t between = cost_of(interior->body), ends = std::min<std::int64_t>(2, rounds);
    if (has_function_parts()) {
      of_terms += (of_terms - between) * std::ssize(function_parts(stage_.body));
    } else if (rounds > 0) {
      of_terms = (of_terms * ends + between * (rounds - ends)) / rounds;
    }
  }
  if (extremes) of_terms += extremes_in_chains() ? kChained : kExtreme;
  std::int64_t of_result = stage_.finish.defined() ? cost_of(stage_.finish) : 0;
  of_result += reduces ? 100 : access(stage_.target, stage_.store, analysis_.has_masks());
  if (!axis.valid()) return (of_terms + of_result / terms) * kElements;
  const Dim& extent = analysis_.formula().variable(axis).extent;
  const std::int64_t count = std::max<std::int64_t>(1, analysis_.size(extent));
  std::int64_t steps = analysis_.vector_steps(extent);
  // Vectors that are left over go together where there are functions: two, or four with an idle one (along_output).
  if (!reduces && steps % 4 == 3 && count % analysis_.lanes() != 0 && has_functions()) ++steps;
  if (reduces) return (of_terms * steps + kFold) * kElements / count + of_result * kElements / terms;
  return ((of_terms + of_result / terms) * steps + kBegin / terms) * kElements / count;
}

// Where ends are a small part of what there is.
std::optional<Interior> StageVectorization::interior_along(VarId axis, bool reduces) const {
  constexpr std::int64_t kLeastVectors = 4;
  const bool maps = stage_.kind == te::Stage::Kind::MapReduce && stage_.reducer == te::Reducer::None;
  if (!maps || reduces || !axis.valid() || analysis_.target().kind != TargetKind::Cpu) return std::nullopt;
  const std::int64_t turns = analysis_.size(analysis_.formula().variable(axis).extent);
  if (turns < kLeastVectors * analysis_.lanes()) return std::nullopt;
  return interior_of(analysis_, stage_.body, axis);
}

std::int64_t StageVectorization::cycles() const {
  constexpr std::int64_t kPerAccess = 100 * kElements * 2;  // of cost_: an access takes half a cycle
  constexpr std::int64_t kAtOnce = 5,
                         kAlone = 2;  // chains of arithmetic that wait for themselves take longer
  __extension__ typedef __int128 Int128;
  Int128 elements = 1;
  for (const auto* loops : {&stage_.axes, &stage_.reduction}) {
    for (VarId loop : *loops)
      elements *= std::max<std::int64_t>(0, analysis_.size(analysis_.formula().variable(loop).extent));
  }
  Int128 total = elements * cost_ * 1000 / kPerAccess;
  if (has_functions() && together_ == 1) total = total * kAtOnce / kAlone;
  if (has_functions() && together_ == 2) total = total * kAtOnce / 4;
  // Several functions that go together spill their constants.
  const bool in_turns =
      strip_ && has_function_parts() &&
      analysis_.size(analysis_.formula().variable(strip_->axis).extent) >= kTurns * together_ * strip_->width;
  if (has_functions() && !in_turns && !function_parts(stage_.body).empty()) total = total * 4 / 3;
  return total > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(total);
}

std::optional<Strip> StageVectorization::choose_strip() {
  if (stage_.kind == te::Stage::Kind::Scatter || analysis_.lanes() == 1) return std::nullopt;
  bool packed = bits_of(analysis_.formula().buffer(stage_.target).dtype) < 8;
  te::for_each_node(stage_, [&](const ExprNode& node) {
    packed = packed || (te::is_load(node) && bits_of(analysis_.formula().buffer(node.buffer).dtype) < 8);
  });
  if (packed) return std::nullopt;  // several elements share a byte
  std::optional<Strip> best;
  cost_ = cost_along({}, false);
  auto consider = [&](VarId axis, bool reduces) {
    const Dim& extent = analysis_.formula().variable(axis).extent;
    std::int64_t turns = analysis_.size(extent);
    if (turns < 2) return;
    const std::int64_t cost = cost_along(axis, reduces);
    // Squares that are transposed in registers take less than what is counted, one lane after another.
    const bool squares =
        best && !best->reduces && turned_axis(best->axis).valid() && !transposes_in_registers(best->axis);
    if (best && cost >= (squares ? cost_ * 3 / 4 : cost_)) return;
    cost_ = cost;
    best = Strip{axis, reduces, analysis_.vector_width(extent)};
  };
  for (auto axis = free_.rbegin(); axis != free_.rend(); ++axis) consider(*axis, false);
  if (!keep_order_) {
    for (auto axis = reduction_.rbegin(); axis != reduction_.rend(); ++axis) consider(*axis, true);
  }
  return best;
}

bool StageVectorization::has_function_parts() const {
  return stage_.reducer == te::Reducer::None && stage_.kind == te::Stage::Kind::MapReduce &&
         !stage_.finish.defined() && stage_.body.dtype() == DType::F32 && ahead_.loads.empty() &&
         !function_parts(stage_.body).empty();
}

// An axis that an operand lies along while it is strided along the strip; invalid where there is none.
VarId StageVectorization::turned_axis(VarId strip) const {
  const bool copies = stage_.kind == te::Stage::Kind::MapReduce && stage_.reducer == te::Reducer::None &&
                      analysis_.target().kind == TargetKind::Cpu;
  auto turns = [this](VarId axis) { return analysis_.size(analysis_.formula().variable(axis).extent); };
  if (!copies || turns(strip) < kSquare) return {};
  VarId found;
  te::for_each_node(stage_, [&](const ExprNode& node) {
    if (!te::is_load(node) || found.valid()) return;
    const std::vector<Expr> index = te::index_of(node);
    const auto along_strip = analysis_.stride(node.buffer, index, strip);
    if (!along_strip || along_strip->is(0) || along_strip->is(1)) return;
    for (VarId axis : free_) {
      const auto stride = analysis_.stride(node.buffer, index, axis);
      if (stride && stride->is(1) && turns(axis) >= kSquare) found = axis;
    }
  });
  return found;
}

// Whether squares are loaded along their other axis and transposed by shuffles: of an operand along the strip each lane would be
// loaded by itself then.
bool StageVectorization::transposes_in_registers(VarId strip) const {
  constexpr int kBits = 32;
  const std::int64_t lanes = analysis_.lanes();
  if (has_functions() || lanes < 4 || kSquare % lanes != 0) return false;
  // Where results lie along the other axis, too, nothing has to be turned.
  const auto stored = analysis_.stride(stage_.target, stage_.store, strip);
  if (!stored || !stored->is(1)) return false;
  if (bits_of(analysis_.formula().buffer(stage_.target).dtype) != kBits) return false;
  bool divides = false;  // such places lie in squares seldom, and take long to look at where they nest
  te::for_each_node(stage_, [&](const ExprNode& node) { divides = divides || node.op == ExprOp::FloorDiv; });
  const VarId other = divides ? VarId() : turned_axis(strip);
  if (!other.valid()) return false;
  bool whole = true;
  te::for_each_node(stage_, [&](const ExprNode& node) {
    if (!te::is_load(node)) return;
    const auto stride = analysis_.stride(node.buffer, te::index_of(node), other);
    whole = whole && stride && (stride->is(0) || stride->is(1));
  });
  return whole;
}

bool StageVectorization::finishes_in_vectors() const {
  if (!strip_ || strip_->reduces) return false;
  const Dim& extent = analysis_.formula().variable(strip_->axis).extent;
  return 4 * analysis_.size(extent) >= 3 * analysis_.vector_steps(extent) * analysis_.lanes();
}

bool StageVectorization::extremes_in_chains() const {
  const bool extreme = stage_.reducer == te::Reducer::Max || stage_.reducer == te::Reducer::Min;
  if (!extreme || analysis_.target().kind != TargetKind::Cpu || reduction_.empty()) return false;
  const Dim& last = analysis_.formula().variable(reduction_.back()).extent;
  return last.is_constant() && last.constant() >= 2 * kChains;
}

}  // namespace xyntra
