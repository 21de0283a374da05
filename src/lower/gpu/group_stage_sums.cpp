#include "lower/gpu/group_stage.h"

#include <algorithm>

#include "lower/gpu/contraction/lower_groups.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kSumsOfThread = 16;  // that a thread adds up by itself
constexpr std::int64_t kMostBlocks =
    32;  // of threads that exchange values: their sums are added up by every thread
constexpr std::int64_t kSlicedSum = 64;  // worth several threads where there are fewer results than threads
constexpr std::int64_t kMostSlices = 64;
constexpr std::int64_t kTurnsAhead = 4;  // of a sliced sum, whose elements are on their way

}  // namespace

// Results of vectors where the terms are, along a loop of the results; single ones where not.
GroupStage::Slices GroupStage::slices_of(const Stage& stage, const std::vector<VarId>& free) const {
  Substitution ones;
  const Side results = loops_of(free, ones);
  const bool long_sums = sums_ == Sums::InParts && stage.reducer != te::Reducer::None &&
                         !results.axes.empty() && results.extent.is_constant() &&
                         results.extent.constant() > 0 && terms(stage) >= kSlicedSum;
  if (!long_sums) return {};
  Slices made;
  const bool vectors = by_vectors(results) && has_vectors(lowering_.target(), stage.body.dtype()) &&
                       has_vectors(lowering_.target(), formula_.buffer(stage.target).dtype) &&
                       comes_in_vectors(lowering_, stage.body, results.axes[0]);
  if (vectors) made.lanes = kRowLanes;
  made.parts = results.extent.constant() / made.lanes;
  made.count = std::clamp<std::int64_t>(threads / made.parts, 1, kMostSlices);
  const VarId innermost = stage.reduction.back();
  made.along_sum = !vectors && comes_in_vectors(lowering_, stage.body, innermost);
  // Vectors along the sum are more than turns ahead.
  return made.count == 1 && vector_loop(stage).valid() && !vectors ? Slices() : made;
}

std::int64_t GroupStage::turns(const Stage& stage, const std::vector<VarId>& free) const {
  const Slices slices = slices_of(stage, free);
  Substitution ones;
  const std::int64_t results = slices.count > 0 ? slices.parts : lowering_.size(loops_of(free, ones).extent);
  const std::int64_t slice = std::max<std::int64_t>(1, slices.count);
  return (results + threads - 1) / threads * ((terms(stage) + slice - 1) / slice);
}

// A thread's terms, one in so many as there are slices, several of them on their way at a time; no statement where their indices
// would have to be checked.
Stmt GroupStage::terms_ahead(const Stage& stage, const Slices& slices, kir::BufferId sum, const Expr& slice,
                             VarId lane, Substitution bound) {
  const Side of_sum = loops_of(stage.reduction, bound);
  const DType dtype = stage.body.dtype();
  const std::int64_t at_once = slices.count * kTurnsAhead;
  const VarId ahead = lowering_.loop("u", kTurnsAhead),
              turn = lowering_.loop("i", ceil_div(of_sum.extent, at_once));
  const Expr l = Expr::variable(lane),
             term = (Expr::variable(turn) * Expr::index(kTurnsAhead) + Expr::variable(ahead)) *
                        Expr::index(slices.count) +
                    slice;
  of_sum.bind(formula_, term, bound);
  const Lowering::Body value = lowering_.body(stage.body, bound);
  if (!value.checks.empty()) return {};
  const Expr none = identity_of(stage.reducer, dtype), is_inside = inside(term, of_sum.extent, at_once);
  const Expr next = is_inside.defined() ? te::select(is_inside, value.value, none) : value.value;
  const Stmt add = Stmt::store(sum, {l}, combined(stage.reducer, Expr::load(sum, dtype, {l}), next));
  return Stmt::block({slices.in_lanes(lane, Stmt::store(sum, {l}, none)),
                      Stmt::loop(LoopKind::Serial, turn,
                                 Stmt::loop(LoopKind::Unrolled, ahead, slices.in_lanes(lane, add)))});
}

Stmt GroupStage::Slices::in_lanes(VarId lane, const Stmt& what) const {
  return Stmt::loop(lanes > 1 ? LoopKind::Vector : LoopKind::Unrolled, lane, what);
}

Stmt GroupStage::in_slices(const Stage& stage, const std::vector<VarId>& free, Substitution bound) {
  const Slices slices = slices_of(stage, free);
  if (slices.count == 0) return {};
  const Side results = loops_of(free, bound);
  const DType dtype = stage.body.dtype();
  const VarId lane = lowering_.loop("v", slices.lanes);
  const Expr thread = Expr::variable(thread_), l = Expr::variable(lane);
  auto at = [&](const Expr& part) {
    Substitution places = bound;
    results.bind(formula_, part * Expr::index(slices.lanes) + l, places);
    return places;
  };
  const kir::BufferId sum = lowering_.scratch("a", dtype, {slices.lanes}, Scope::Register);
  const Expr own = Expr::load(sum, dtype, {l});
  if (slices.count == 1) {
    Stmt some;
    Stmt all = shared_out({Dim(slices.parts)}, false, [&](const std::vector<Expr>& index, const Expr&) {
      const Substitution places = at(index[0]);
      some = terms_ahead(stage, slices, sum, Expr::index(0), lane, places);
      return some.defined() ? Stmt::block({some, slices.in_lanes(lane, finish(stage, places, own))})
                            : Stmt::block({});
    });
    return some.defined() ? all : Stmt();
  }
  const std::int64_t used = slices.parts * slices.count;
  const std::int64_t together = slices.along_sum ? slices.count : slices.parts;
  const Expr outer = te::floor_div(thread, Expr::index(together)),
             inner = te::mod(thread, Expr::index(together));
  const Expr slice = slices.along_sum ? inner : outer, part = slices.along_sum ? outer : inner;
  const Stmt some = terms_ahead(stage, slices, sum, slice, lane, at(part));
  if (!some.defined()) return {};
  const kir::BufferId shared =
      lowering_.scratch("p", dtype, {slices.count, slices.parts * slices.lanes}, Scope::Shared);
  auto place = [&](const Expr& of) { return of * Expr::index(slices.lanes) + l; };
  const Stmt share =
      Stmt::block({some, slices.in_lanes(lane, Stmt::store(shared, {slice, place(part)}, own))});
  std::vector<Expr> all;
  for (std::int64_t i = 0; i < slices.count; ++i)
    all.push_back(Expr::load(shared, dtype, {Expr::index(i), place(thread)}));
  const Stmt last = finish(stage, at(thread), combined_in_pairs(stage.reducer, std::move(all)));
  return Stmt::block({used < threads ? Stmt::branch(thread < Expr::index(used), share) : share, barrier(),
                      Stmt::branch(thread < Expr::index(slices.parts), slices.in_lanes(lane, last))});
}

// Threads that exchange values by themselves, where that leaves few sums to share; 1 elsewhere.
std::int64_t GroupStage::threads_of_block(DType dtype) const {
  const bool word = dtype == DType::F32 || dtype == DType::I32 || dtype == DType::U32;
  const std::int64_t block = std::min(lowering_.subgroup_lanes(), threads);
  return word && block > 1 && threads / block <= kMostBlocks ? block : 1;
}

// One sum by all threads: each adds up its elements, then neighbours are added to neighbours, two by two. Threads of a block
// exchange their sums; without blocks, a few threads add up a stretch of them each. Either way it is the same tree.
Stmt GroupStage::together(const Stage& stage, Substitution bound) {
  const DType dtype = stage.body.dtype();
  const Side loops = loops_of(stage.reduction, bound);
  const bool vectors = by_vectors(loops) && has_vectors(lowering_.target(), dtype);
  const std::int64_t at_once = vectors ? lanes : 1;
  const kir::BufferId sum = lowering_.scratch("a", dtype, {at_once}, Scope::Register);
  const Expr thread = Expr::variable(thread_), none = Expr::index(0);
  auto own = [&](const Expr& lane) { return Expr::load(sum, dtype, {lane}); };
  auto add_up = [&](std::int64_t count, auto term) {  // sum[0] = all terms
    std::vector<Expr> terms;
    for (std::int64_t i = 0; i < count; ++i) terms.push_back(term(i));
    return Stmt::store(sum, {none}, combined_in_pairs(stage.reducer, std::move(terms)));
  };
  std::vector<Stmt> body;
  for (std::int64_t lane = 0; lane < at_once; ++lane)
    body.push_back(Stmt::store(sum, {Expr::index(lane)}, identity_of(stage.reducer, dtype)));
  body.push_back(shared_out(loops, bound, vectors, [&](const Substitution& at, const Expr& lane) {
    return accumulate(sum, stage, at, lane);
  }));
  body.push_back(add_up(at_once, [&](std::int64_t i) { return own(Expr::index(i)); }));
  const std::int64_t block = threads_of_block(dtype), blocks = threads / block;
  const std::int64_t stretches = std::min(kSumsOfThread, threads);
  if (block > 1) body.push_back(exchanged(stage, sum, block));
  auto share = [&](kir::BufferId sums, const Expr& place) { return Stmt::store(sums, {place}, own(none)); };
  kir::BufferId sums;
  if (block == 1) {
    // A stretch lies apart from the next, so that threads read from different banks.
    const std::int64_t stretch = threads / stretches;
    const kir::BufferId parts = lowering_.scratch("p", dtype, {threads + stretches}, Scope::Shared);
    sums = lowering_.scratch("p", dtype, {stretches}, Scope::Shared);
    auto part = [&](std::int64_t i) {
      return Expr::load(parts, dtype, {thread * Expr::index(stretch + 1) + Expr::index(i)});
    };
    Stmt some = Stmt::block({add_up(stretch, part), share(sums, thread)});
    body.insert(body.end(), {share(parts, thread + te::floor_div(thread, Expr::index(stretch))), barrier(),
                             Stmt::branch(thread < Expr::index(stretches), some), barrier()});
  } else if (blocks > 1) {
    sums = lowering_.scratch("p", dtype, {blocks}, Scope::Shared);
    const Expr is_first = te::equal(te::mod(thread, Expr::index(block)), 0);
    body.insert(body.end(),
                {Stmt::branch(is_first, share(sums, te::floor_div(thread, Expr::index(block)))), barrier()});
  }
  if (sums.valid()) {
    body.push_back(add_up(block == 1 ? stretches : blocks,
                          [&](std::int64_t i) { return Expr::load(sums, dtype, {Expr::index(i)}); }));
    unseen_.clear();
  }
  Stmt all = finish(stage, bound, own(none));
  body.push_back(is_own(stage) ? all : by_one_thread(all));
  return Stmt::block(std::move(body));
}

// Each thread's sum is that of its whole block, by the pairs of a tree: the lower thread's is the first of a pair.
Stmt GroupStage::exchanged(const Stage& stage, kir::BufferId sum, std::int64_t block) {
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

}  // namespace xyntra
