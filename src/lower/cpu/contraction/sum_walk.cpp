#include "lower/cpu/contraction/sum_walk.h"

#include <algorithm>

#include "lower/nested_loops.h"

namespace xyntra {

using kir::LoopKind;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

struct Along {
  VarId axis;
  Dim turns;
  Expr start;
  bool written_out = false;
};

std::vector<Along> steps_of(const TiledContraction& contraction, const SumPass* pass, bool by_offset) {
  std::vector<Along> steps;
  if (pass != nullptr && pass->depth->split.valid())
    steps.push_back(
        {pass->depth->split, pass->depth->factor, pass->turn * Expr::index(pass->depth->factor), false});
  const std::vector<VarId> all =
      contraction.fused ? contraction.tiling.reduction_order() : contraction.stage.reduction;
  for (VarId axis : pass != nullptr ? pass->depth->inner : all)
    steps.push_back(
        {axis, contraction.extent(axis), Expr::index(0), by_offset && contraction.side()->offset == axis});
  return steps;
}

bool is_innermost(std::span<const Along> steps) {
  return std::ranges::all_of(steps.subspan(1), [](const Along& step) { return step.turns.is(1); });
}

// Leaving a loop of few iterations takes as long as going through it, where these are short, too.
bool is_brief(const Along& step, const TileSums& sums) {
  constexpr std::int64_t kMostTurns = 8, kMostProducts = 64;
  return sums.registers > 0 && step.turns.is_constant() && step.turns.constant() > 1 &&
         step.turns.constant() <= kMostTurns && step.turns.constant() * sums.registers <= kMostProducts;
}

class SumWalk {
 public:
  SumWalk(const TiledContraction& contraction, const TileSums& sums, const SumTurn& turn)
      : contraction_(contraction), sums_(sums), turn_(turn) {}

  Stmt run(const Substitution& bound, const SumPass* pass, bool by_offset) {
    const std::vector<Along> steps = steps_of(contraction_, pass, by_offset);
    Stmt made = turns_along(steps, bound, {}, false);
    if (pass == nullptr) return made;
    for (VarId axis : pass->depth->outer) {
      if (is_beyond(axis))
        made = where_inside(axis, bound, std::move(made), turns_along(steps, bound, {}, true));
    }
    return made;
  }

 private:
  Stmt turns_along(std::span<const Along> steps, Substitution bound, Walk walk, bool only_ask) {
    if (steps.empty()) return turn_(bound, walk, only_ask);
    const VarId axis = steps.front().axis;
    const Dim& turns = steps.front().turns;
    const Expr& start = steps.front().start;
    walk.first[axis.index] = start;
    walk.innermost = axis;
    bound[axis.index] = start;
    if (turns.is(1)) return turns_along(steps.subspan(1), std::move(bound), std::move(walk), only_ask);
    auto at = [&](const Expr& number, std::int64_t chain = 0) {
      Substitution here = bound;
      here[axis.index] = start.is_integer_constant(0) ? number : start + number;
      Walk deeper = walk;
      deeper.turn = walk.turns.is(1) ? number : walk.turn * Expr::size(turns) + number;
      deeper.turns = walk.turns * turns;
      deeper.chain = chain;
      Stmt made = turns_along(steps.subspan(1), here, deeper, only_ask);
      if (only_ask || !is_beyond(axis)) return made;
      return where_inside(axis, here, std::move(made), turns_along(steps.subspan(1), here, deeper, true));
    };
    const bool interleaves = sums_.chains > 1 && is_innermost(steps);
    if (steps.front().written_out ||
        (!interleaves && is_innermost(steps) && is_brief(steps.front(), sums_))) {
      std::vector<Stmt> offsets;
      for (std::int64_t offset = 0; offset < turns.constant(); ++offset) {
        if (Stmt one = at(Expr::index(offset)); one.defined()) offsets.push_back(std::move(one));
      }
      return offsets.empty() ? Stmt() : Stmt::block(std::move(offsets));
    }
    if (interleaves) return interleaved(contraction_.name(axis), turns.constant(), at);
    VarId loop = contraction_.lowering.loop(contraction_.name(axis), turns);
    Stmt body = at(Expr::variable(loop));
    return body.defined() ? Stmt::loop(LoopKind::Serial, loop, std::move(body)) : Stmt();
  }

  // Iterations one after another, each adding to the next of the partial sums.
  template <class At>
  Stmt interleaved(const std::string& name, std::int64_t turns, const At& at) {
    std::vector<Stmt> made;
    auto some = [&](std::vector<Stmt>& into, const Expr& first, std::int64_t count) {
      for (std::int64_t chain = 0; chain < count; ++chain) {
        const Expr number = chain == 0 ? first : first + Expr::index(chain);
        if (Stmt one = at(number, chain); one.defined()) into.push_back(std::move(one));
      }
    };
    const std::int64_t whole = turns / sums_.chains, done = whole * sums_.chains;
    if (whole == 1) {
      some(made, Expr::index(0), sums_.chains);
    } else {
      const VarId loop = contraction_.lowering.loop(name, whole);
      std::vector<Stmt> body;
      some(body, Expr::variable(loop) * Expr::index(sums_.chains), sums_.chains);
      if (!body.empty()) made.push_back(Stmt::loop(LoopKind::Serial, loop, Stmt::block(std::move(body))));
    }
    some(made, Expr::index(done), turns - done);
    return made.empty() ? Stmt() : Stmt::block(std::move(made));
  }

  // Whether all rows of a tile lie beyond the feature map together at some offsets of this axis.
  bool is_beyond(VarId axis) const {
    const auto& border = contraction_.border;
    return border && border->across(axis) != nullptr &&
           border->across(axis)->turn != contraction_.tiling.tile;
  }
  Stmt where_inside(VarId axis, const Substitution& bound, Stmt inside, Stmt outside) const {
    const WindowBorder& border = *contraction_.border;
    const WindowBorder::Side& side = *border.across(axis);
    const Expr at = contraction_.lowering.at(border.index[side.dimension], bound);
    return Stmt::branch(WindowBorder::inside(side, at), std::move(inside), std::move(outside));
  }

  const TiledContraction& contraction_;
  const TileSums sums_;
  const SumTurn& turn_;
};

}  // namespace

Stmt in_passes(const TiledContraction& contraction, const Substitution& bound, SumPass& pass,
               const std::function<Stmt(const Substitution&)>& one) {
  Substitution deeper = bound;
  std::vector<VarId> loops;
  auto over = [&](VarId axis, const Dim& turns) {
    if (turns.is(1)) return Expr::index(0);
    loops.push_back(contraction.lowering.loop(contraction.name(axis), turns));
    Expr turn = Expr::variable(loops.back());
    pass.number = pass.count == 1 ? turn : pass.number * Expr::size(turns) + turn;
    pass.count *= turns.constant();
    return turn;
  };
  const SumCut& depth = *pass.depth;
  for (VarId axis : depth.outer) deeper[axis.index] = over(axis, contraction.extent(axis));
  if (depth.split.valid())
    pass.turn = over(depth.split, floor_div(contraction.extent(depth.split), depth.factor));
  return in_loops(LoopKind::Serial, loops, one(deeper));
}

Stmt along_sum(const TiledContraction& contraction, const Substitution& bound, const SumPass* pass,
               bool by_offset, const TileSums& sums, const SumTurn& turn) {
  return SumWalk(contraction, sums, turn).run(bound, pass, by_offset);
}

std::int64_t chains_of(const TiledContraction& contraction, const SumPass* pass, bool by_offset,
                       std::int64_t registers) {
  constexpr std::int64_t kFewestEach = 4;  // products of a partial sum: shorter ones are not worth adding up
  if (!contraction.fused) return 1;
  const std::vector<Along> steps = steps_of(contraction, pass, by_offset);
  std::int64_t all = 1;
  for (const Along& step : steps) {
    if (!step.turns.is_constant()) return 1;
    all *= step.turns.constant();
  }
  const auto last = std::ranges::find_if_not(steps.rbegin(), steps.rend(),
                                             [](const Along& step) { return step.turns.is(1); });
  if (last == steps.rend() || last->written_out) return 1;
  const std::int64_t most = std::min(last->turns.constant(), all / kFewestEach);
  return std::clamp<std::int64_t>(kFewestSums / registers, 1, std::max<std::int64_t>(1, most));
}

}  // namespace xyntra
