// Sums along the strip: some chains of partial ones in the lanes of vectors, and what other stages do meanwhile.
#include "lower/lower_stage.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kBlockTerms =
    256;  // terms of a block: rounding errors grow with the length of a chain

}  // namespace

Stmt StageLowering::add_term(kir::BufferId sum, const std::vector<Expr>& place,
                             const Substitution& bound) const {
  Lowering::Body body = term(bound);
  const Expr so_far = Expr::load(sum, stage_.body.dtype(), place);
  body.checks.push_back(Stmt::store(sum, place, combined(stage_.reducer, so_far, body.value)));
  return Stmt::block(std::move(body.checks));
}

bool StageLowering::sums_by_blocks() const {
  if (keep_order_ || stage_.reducer != te::Reducer::Sum || !is_float(stage_.body.dtype()) ||
      reduction_.empty())
    return false;
  const Dim& last = lowering_.formula().variable(reduction_.back()).extent;
  return last.is_constant() && last.constant() >= 2 * kBlockTerms;
}

// Blocks of the innermost reduction loop, each a sum of its own that is added to the whole.
Stmt StageLowering::block_sums(const Substitution& bound, kir::BufferId sum,
                               const std::vector<Expr>& place) const {
  const DType dtype = stage_.body.dtype();
  const VarId last = reduction_.back();
  const te::Variable& variable = lowering_.formula().variable(last);
  const std::int64_t terms = variable.extent.constant(), blocks = terms / kBlockTerms,
                     rest = terms % kBlockTerms;
  const kir::BufferId part = lowering_.scratch(
      "p", dtype, place.empty() ? Shape{} : lowering_.kernel().buffer(sum).shape, Scope::Register);
  auto block = [&](Substitution inner, const Expr& first, std::int64_t count) {
    const VarId loop = lowering_.loop(variable.name, count);
    inner[last.index] = first + Expr::variable(loop);
    const Expr so_far = Expr::load(sum, dtype, place);
    return Stmt::block(
        {Stmt::store(part, place, identity_of(stage_.reducer, dtype)),
         Stmt::loop(LoopKind::Serial, loop, add_term(part, place, inner)),
         Stmt::store(sum, place, combined(stage_.reducer, so_far, Expr::load(part, dtype, place)))});
  };
  const std::vector<VarId> outer(reduction_.begin(), reduction_.end() - 1);
  return around(outer, LoopKind::Serial, bound, [&](const Substitution& inner) {
    const VarId number = lowering_.loop(variable.name + "b", blocks);
    Stmt whole = Stmt::loop(LoopKind::Serial, number,
                            block(inner, Expr::variable(number) * Expr::index(kBlockTerms), kBlockTerms));
    if (rest == 0) return whole;
    return Stmt::block({std::move(whole), block(inner, Expr::index(blocks * kBlockTerms), rest)});
  });
}

// Max and min reductions with several accumulators: the larger of two, or NaN, is some instructions of latency, so turns of the innermost
// loop alternate between accumulators, which are compared at the end.
Stmt StageLowering::chained_extremes(const Substitution& bound, kir::BufferId extreme,
                                     const std::vector<Expr>& place) const {
  const DType dtype = stage_.body.dtype();
  const VarId last = reduction_.back();
  const te::Variable& variable = lowering_.formula().variable(last);
  const std::int64_t terms = variable.extent.constant(), rounds = terms / kChains, rest = terms % kChains;
  std::vector<kir::BufferId> chains{extreme};
  std::vector<Stmt> made;
  for (std::int64_t chain = 1; chain < kChains; ++chain) {
    chains.push_back(
        lowering_.scratch("a", dtype, lowering_.kernel().buffer(extreme).shape, Scope::Register));
    made.push_back(Stmt::store(chains.back(), place, identity_of(stage_.reducer, dtype)));
  }
  auto one_each = [&](Substitution inner, const Expr& first, std::int64_t count) {
    std::vector<Stmt> turns;
    for (std::int64_t chain = 0; chain < count; ++chain) {
      inner[last.index] = first + Expr::index(chain);
      turns.push_back(add_term(chains[static_cast<std::size_t>(chain)], place, inner));
    }
    return Stmt::block(std::move(turns));
  };
  const std::vector<VarId> outer(reduction_.begin(), reduction_.end() - 1);
  made.push_back(around(outer, LoopKind::Serial, bound, [&](const Substitution& inner) {
    const VarId round = lowering_.loop(variable.name + "b", rounds);
    Stmt whole = Stmt::loop(LoopKind::Serial, round,
                            one_each(inner, Expr::variable(round) * Expr::index(kChains), kChains));
    if (rest == 0) return whole;
    return Stmt::block({std::move(whole), one_each(inner, Expr::index(rounds * kChains), rest)});
  }));
  for (std::size_t apart = chains.size() / 2; apart >= 1; apart /= 2) {
    for (std::size_t chain = 0; chain < apart; ++chain) {
      const Expr one = Expr::load(chains[chain], dtype, place),
                 other = Expr::load(chains[chain + apart], dtype, place);
      made.push_back(Stmt::store(chains[chain], place, combined(stage_.reducer, one, other)));
    }
  }
  return Stmt::block(std::move(made));
}

std::int64_t StageLowering::chains() const {
  const std::int64_t turns = lowering_.size(lowering_.formula().variable(strip_->axis).extent);
  return turns >= kChains * strip_->width ? kChains : 1;
}

Stmt StageLowering::in_lanes(std::int64_t lanes, const std::function<Stmt(const Expr& lane)>& body) const {
  VarId lane = lowering_.loop("l", lanes);
  return Stmt::loop(LoopKind::Vector, lane, body(Expr::variable(lane)));
}

Stmt StageLowering::added(kir::BufferId sums, const Substitution& bound, const Expr& chain,
                          const Expr& lane) const {
  Lowering::Body body = term(bound);
  const Expr so_far = Expr::load(sums, stage_.body.dtype(), {chain, lane});
  body.checks.push_back(Stmt::store(sums, {chain, lane}, combined(stage_.reducer, so_far, body.value)));
  return Stmt::block(std::move(body.checks));
}

Stmt StageLowering::begin_sums(kir::BufferId sums) const {
  std::vector<Stmt> statements;
  for (std::int64_t chain = 0; chain < chains(); ++chain) {
    statements.push_back(in_lanes(strip_->width, [&](const Expr& lane) {
      return Stmt::store(sums, {Expr::index(chain), lane}, identity_of(stage_.reducer, stage_.body.dtype()));
    }));
  }
  return Stmt::block(std::move(statements));
}

// A vector for each chain.
Stmt StageLowering::add_round(kir::BufferId sums, Substitution bound, const Expr& first) const {
  std::vector<Stmt> statements;
  for (std::int64_t chain = 0; chain < chains(); ++chain) {
    const Expr begin = first + Expr::index(chain * strip_->width);
    Stmt vector = in_lanes(strip_->width, [&](const Expr& lane) {
      bound[strip_->axis.index] = begin + lane;
      return added(sums, bound, Expr::index(chain), lane);
    });
    statements.push_back(after_fetching(bound, begin, std::move(vector)));
  }
  return Stmt::block(std::move(statements));
}

// What fills no round: vectors, then elements.
Stmt StageLowering::add_rest(kir::BufferId sums, Substitution bound, const Dim& done) const {
  const Dim& extent = lowering_.formula().variable(strip_->axis).extent;
  const std::int64_t width = strip_->width;
  const Expr zero = Expr::index(0);
  std::vector<Stmt> parts;
  const Dim blocks = chains() > 1 ? floor_div(extent, width) - floor_div(done, width) : Dim(0);
  if (!blocks.is(0)) {
    VarId block = lowering_.loop("b", blocks);
    parts.push_back(Stmt::loop(LoopKind::Serial, block, in_lanes(width, [&](const Expr& lane) {
                                 bound[strip_->axis.index] =
                                     Expr::size(done) + Expr::variable(block) * Expr::index(width) + lane;
                                 return added(sums, bound, zero, lane);
                               })));
  }
  const Dim whole = done + blocks * width, rest = extent - whole;
  if (!rest.is(0) && masked(rest)) {
    Stmt some = in_lanes(width, [&](const Expr& lane) {
      const Expr position = Expr::size(whole) + lane;
      bound[strip_->axis.index] = position;
      return Stmt::branch(position < Expr::size(extent), added(sums, bound, zero, lane));
    });
    parts.push_back(where_left(whole, extent, std::move(some)));
  } else if (!rest.is(0)) {
    VarId one = lowering_.loop("r", rest);
    bound[strip_->axis.index] = Expr::size(whole) + Expr::variable(one);
    parts.push_back(Stmt::loop(LoopKind::Serial, one, added(sums, bound, zero, zero)));
  }
  return Stmt::block(std::move(parts));
}

Stmt StageLowering::end_sums(kir::BufferId sums, const Substitution& bound) const {
  const DType dtype = stage_.body.dtype();
  const Expr zero = Expr::index(0);
  std::vector<Stmt> statements;
  auto partial = [&](const Expr& chain, const Expr& lane) { return Expr::load(sums, dtype, {chain, lane}); };
  for (std::int64_t apart = chains() / 2; apart >= 1; apart /= 2) {
    for (std::int64_t chain = 0; chain < apart; ++chain) {
      statements.push_back(in_lanes(strip_->width, [&](const Expr& lane) {
        const Expr one = partial(Expr::index(chain), lane), other = partial(Expr::index(chain + apart), lane);
        return Stmt::store(sums, {Expr::index(chain), lane}, combined(stage_.reducer, one, other));
      }));
    }
  }
  for (std::int64_t apart = strip_->width / 2; apart >= 1; apart /= 2) {
    statements.push_back(in_lanes(apart, [&](const Expr& lane) {
      const Expr one = partial(zero, lane), other = partial(zero, lane + Expr::index(apart));
      return Stmt::store(sums, {zero, lane}, combined(stage_.reducer, one, other));
    }));
  }
  Lowering::Body value{{}, partial(zero, zero)};
  if (stage_.finish.defined()) value = lowering_.body(stage_.finish, bound, partial(zero, zero));
  statements.push_back(lowering_.store(stage_, bound, std::move(value)));
  return Stmt::block(std::move(statements));
}

kir::BufferId StageLowering::place_of_sums() const {
  return lowering_.scratch("a", stage_.body.dtype(), {chains(), strip_->width}, Scope::Register);
}

Stmt StageLowering::all_rounds(const Dim& rounds, const std::function<Stmt(const Expr& first)>& round) const {
  const VarId block = lowering_.loop("b", rounds);
  const Expr first = Expr::variable(block) * Expr::index(chains() * strip_->width);
  return Stmt::loop(LoopKind::Serial, block, round(first));
}

Stmt StageLowering::along_reduction(const Substitution& bound) const {
  const Dim& extent = lowering_.formula().variable(strip_->axis).extent;
  const kir::BufferId sums = place_of_sums();
  std::vector<Stmt> statements{begin_sums(sums)};
  for (const Beside& other : beside_) {
    if (other.begin) statements.push_back(other.begin());
  }
  statements.push_back(turns(bound, [&](const Substitution& inner) {
    std::vector<Stmt> parts;
    const Dim round = chains() * strip_->width, rounds = floor_div(extent, round), done = rounds * round;
    if (!rounds.is(0)) {
      parts.push_back(all_rounds(rounds, [&](const Expr& first) {
        std::vector<Stmt> unrolled;
        for (const Beside& other : beside_) unrolled.push_back(other.round(first));
        unrolled.push_back(add_round(sums, inner, first));
        return Stmt::block(std::move(unrolled));
      }));
    }
    const Dim left = extent - done;
    for (const Beside& other : beside_) {
      if (!left.is(0)) parts.push_back(other.rest(done, left));
    }
    parts.push_back(add_rest(sums, inner, done));
    return Lowering::where_any(extent, Stmt::block(std::move(parts)));
  }));
  statements.push_back(end_sums(sums, bound));
  for (const Beside& other : beside_) {
    if (other.end) statements.push_back(other.end());
  }
  return Stmt::block(std::move(statements));
}

std::int64_t StageLowering::rounds() const {
  const bool alone = strip_ && strip_->reduces && free_.empty() && reduction_.empty();
  if (!alone || strip_->width != lowering_.lanes() || chains() != kChains) return 0;
  const Dim& extent = lowering_.formula().variable(strip_->axis).extent;
  return extent.is_constant() ? extent.constant() / (kChains * strip_->width) : 0;
}

Stmt StageLowering::reduce_first(const Substitution& bound, std::int64_t rounds) const {
  const kir::BufferId sums = place_of_sums();
  Stmt some = all_rounds(rounds, [&](const Expr& first) { return add_round(sums, bound, first); });
  return Stmt::block({begin_sums(sums), std::move(some), end_sums(sums, bound)});
}

bool StageLowering::reduces_along(const StageLowering& other) const {
  if (rounds() == 0 || other.rounds() == 0) return false;
  return lowering_.formula().variable(strip_->axis).extent ==
         lowering_.formula().variable(other.strip_->axis).extent;
}

Beside StageLowering::reduced_beside(const Substitution& bound) const {
  const StageLowering own = *this;
  const kir::BufferId sums = place_of_sums();
  return {[own, sums, bound](const Expr& first) { return own.add_round(sums, bound, first); },
          [own, sums, bound](const Dim& first, const Dim&) { return own.add_rest(sums, bound, first); },
          [own, sums] { return own.begin_sums(sums); },
          [own, sums, bound] { return own.end_sums(sums, bound); }};
}

bool StageLowering::goes_along(const StageLowering& other) const {
  if (!strip_ || !other.strip_ || !free_.empty() || !other.free_.empty()) return false;
  const Dim &turns = lowering_.formula().variable(strip_->axis).extent,
            &elements = lowering_.formula().variable(other.strip_->axis).extent;
  const bool makes = !other.strip_->reduces && other.stage_.reducer == te::Reducer::None;
  return strip_->reduces && makes && reduction_.empty() && strip_->width == lowering_.lanes() &&
         other.strip_->width == strip_->width && turns == elements && chains() == kChains;
}

// As many vectors as a round of sums has.
Stmt StageLowering::write_round(Substitution bound, const Expr& first) const {
  const std::int64_t lanes = kChains * strip_->width;
  Stmt round = in_lanes(lanes, [&](const Expr& lane) {
    bound[strip_->axis.index] = first + lane;
    return point(bound, lane, lanes);
  });
  for (std::int64_t v = kChains; v-- > 0;)
    round = after_fetching(bound, first + Expr::index(v * strip_->width), std::move(round));
  return round;
}

bool StageLowering::has_rounds() const {
  return strip_ && !strip_->reduces && stage_.reducer == te::Reducer::None && free_.empty() &&
         strip_->width == lowering_.lanes();
}

Stmt StageLowering::in_rounds(const std::vector<Beside>& writers) const {
  const Dim& extent = lowering_.formula().variable(strip_->axis).extent;
  const Dim round = kChains * strip_->width, rounds = floor_div(extent, round), done = rounds * round;
  std::vector<Stmt> parts, together;
  if (!rounds.is(0)) {
    VarId block = lowering_.loop("b", rounds);
    const Expr first = Expr::variable(block) * Expr::size(round);
    for (const Beside& writer : writers) together.push_back(writer.round(first));
    parts.push_back(Stmt::loop(LoopKind::Serial, block, Stmt::block(std::move(together))));
  }
  const Dim left = extent - done;
  for (const Beside& writer : writers) {
    if (!left.is(0)) parts.push_back(writer.rest(done, left));
  }
  return Lowering::where_any(extent, Stmt::block(std::move(parts)));
}

Beside StageLowering::beside(const Substitution& bound) const {
  const StageLowering own = *this;
  return {[own, bound](const Expr& first) { return own.write_round(bound, first); },
          [own, bound](const Dim& first, const Dim& count) { return own.along_output(bound, first, count); }};
}

}  // namespace xyntra
