#include "schedule/prepare/attention_parts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "te/index/index.h"
#include "te/masked_rows.h"
#include "te/match.h"

namespace xyntra {

using te::BufferId;
using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Reducer;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

class AttentionReader {
 public:
  AttentionReader(const Formula& formula, const AttentionKinds& kinds) : formula_(formula), kinds_(kinds) {}

  std::optional<AttentionParts> run() {
    const bool five =
        formula_.stages.size() == 5 && std::ranges::all_of(formula_.stages, [](const Stage& stage) {
          return stage.kind == Stage::Kind::MapReduce;
        });
    if (!five || !find_loops() || !is_softmax() || !find_values()) return std::nullopt;
    return std::move(made_);
  }

 private:
  const Stage& scores() const { return formula_.stages[0]; }
  const Stage& largest() const { return formula_.stages[1]; }
  const Stage& exponents() const { return formula_.stages[2]; }
  const Stage& sum() const { return formula_.stages[3]; }
  const Stage& weighted() const { return formula_.stages[4]; }
  const Dim& extent(VarId loop) const { return formula_.variable(loop).extent; }
  bool is_temporary(BufferId buffer) const { return formula_.buffer(buffer).role == BufferRole::Temporary; }

  // The loops of a stage as those of the scores, found where it reads what was written along these. `free` gets the
  // one output axis that is no such loop, where that is allowed.
  bool align(const Stage& stage, VarId* free = nullptr) {
    bool fits = true;
    auto look_at = [&](const ExprNode& node) {
      auto place = te::is_load(node) ? places_.find(node.buffer) : places_.end();
      if (place == places_.end()) return;
      const std::vector<Expr> index = te::index_of(node);
      for (std::size_t d = 0; d < index.size(); ++d)
        fits = fits && te::matches(index[d], place->second[d], loops_);
    };
    te::for_each_node(stage.body, look_at);
    for (const auto* loops : {&stage.axes, &stage.reduction}) {
      for (VarId loop : *loops) {
        if (extent(loop).is(1)) loops_.try_emplace(loop.index, Expr::index(0));
        if (auto known = loops_.find(loop.index); known != loops_.end()) {
          const Expr& told_so = known->second;
          fits = fits && (told_so->op != ExprOp::Var || extent(told_so->var) == extent(loop));
          continue;
        }
        fits = fits && free != nullptr && !free->valid() && loops == &stage.axes;
        if (fits) *free = loop;
      }
    }
    if (free != nullptr && free->valid()) loops_.emplace(free->index, Expr::variable(*free));
    if (fits && stage.finish.defined()) te::for_each_node(stage.finish, look_at);
    if (fits) places_[stage.target] = told(stage.store);
    return fits;
  }

  Expr told(const Expr& expr) const { return te::substituted(expr, loops_); }
  std::vector<Expr> told(std::vector<Expr> index) const {
    for (Expr& one : index) one = told(one);
    return index;
  }

  bool find_loops() {
    if (scores().reducer != Reducer::Sum || scores().body->op != ExprOp::Mul ||
        scores().reduction.size() != 1 || largest().reduction.size() != 1 || !is_temporary(scores().target))
      return false;
    made_.depth = scores().reduction[0];
    for (VarId loop : scores().axes)
      loops_[loop.index] = extent(loop).is(1) ? Expr::index(0) : Expr::variable(loop);
    loops_[made_.depth.index] = Expr::variable(made_.depth);
    places_[scores().target] = told(scores().store);
    if (!align(largest())) return false;
    const Expr key = loops_.at(largest().reduction[0].index);
    if (key->op != ExprOp::Var) return false;
    made_.key = key->var;
    const Expr &a = scores().body->operands[0], &b = scores().body->operands[1];
    const bool second = te::variables_of(b).count(made_.key) != 0;
    made_.of_queries = told(second ? a : b);
    made_.of_keys = told(second ? b : a);
    const std::set<VarId> left = te::variables_of(made_.of_queries), right = te::variables_of(made_.of_keys);
    if (left.count(made_.key) || !left.count(made_.depth) || !right.count(made_.depth)) return false;
    for (VarId loop : scores().axes) {
      if (loop == made_.key || extent(loop).is(1)) continue;
      const bool query = left.count(loop) && !right.count(loop);
      if (query && (!made_.query.valid() || longer(loop, made_.query))) std::swap(loop, made_.query);
      if (loop.valid()) made_.rows.push_back(loop);
    }
    return (made_.query.valid() || kinds_.one_query) && extent(made_.depth).is_constant();
  }

  // A length that is not known counts as a long one.
  bool longer(VarId a, VarId b) const {
    if (!extent(b).is_constant()) return !extent(a).is_constant();
    return !extent(a).is_constant() || extent(a).constant() >= extent(b).constant();
  }

  bool is_softmax() {
    const BufferId most = largest().target, weights = exponents().target;
    const bool maximum = largest().reducer == Reducer::Max || largest().reducer == Reducer::Largest;
    if (!maximum || !is_temporary(most)) return false;
    // Sums go by the largest score so far, or by a finite number where that is -inf.
    if (largest().finish.defined() && !te::is_at_least_lowest(largest().finish)) return false;
    const Expr score = told(largest().body);
    // Narrower ones would lose their digits in sums that go from block to block.
    const bool precise = score.dtype() == DType::F32 || score.dtype() == DType::F64;
    if (!precise || !reads_only(score, {scores().target}) || formula_.buffer(most).dtype != score.dtype())
      return false;
    if (exponents().reducer != Reducer::None || exponents().finish.defined() || !align(exponents()) ||
        !is_temporary(weights) || formula_.buffer(weights).dtype != score.dtype())
      return false;
    const Expr body = told(exponents().body);
    if (body->op != ExprOp::Exp || body->operands[0]->op != ExprOp::Sub) return false;
    const Expr &x = body->operands[0]->operands[0], &shift = body->operands[0]->operands[1];
    if (!te::same(x, score) || shift->op != ExprOp::Load || shift->buffer != most) return false;
    if (!align(sum()) || sum().reducer != Reducer::Sum || sum().reduction.size() != 1) return false;
    const Expr added = told(sum().body);
    const bool sums = added->op == ExprOp::Load && added->buffer == weights && is_temporary(sum().target) &&
                      formula_.buffer(sum().target).dtype == score.dtype() &&
                      te::same(told(Expr::variable(sum().reduction[0])), Expr::variable(made_.key)) &&
                      (!sum().finish.defined() || reads_only(sum().finish, {}));
    if (!sums) return false;
    const Expr products = Expr::accumulator(scores().body.dtype());
    const Expr made = te::cast(formula_.buffer(scores().target).dtype,
                               scores().finish.defined() ? told(scores().finish) : products);
    te::Rewriter rewriter(
        [&](const Expr& one) { return te::is_load(*one) && one->buffer == scores().target ? made : Expr(); });
    made_.score = rewriter(score);
    made_.maximum = largest().reducer;
    made_.weights = weights;
    made_.sum = sum().target;
    made_.divisor = sum().finish.defined() ? told(sum().finish) : Expr::accumulator(score.dtype());
    return true;
  }

  bool find_values() {
    const Stage& last = weighted();
    if (last.reducer != Reducer::Sum || last.body->op != ExprOp::Mul || last.reduction.size() != 1)
      return false;
    VarId column;
    if (!align(last, &column) || !column.valid() || !extent(column).is_constant()) return false;
    if (!te::same(told(Expr::variable(last.reduction[0])), Expr::variable(made_.key))) return false;
    const Expr a = told(last.body->operands[0]), b = told(last.body->operands[1]);
    const bool second = te::variables_of(a).count(column) == 0;
    made_.column = column;
    Expr weight = unrounded(second ? a : b);
    if (const Expr guarded = te::guarded_weight(weight); guarded.defined()) {
      made_.guarded = true;
      weight = unrounded(guarded);
    }
    if ((made_.rounded && !kinds_.rounded_weights) || (made_.guarded && !kinds_.guarded_weights))
      return false;
    made_.value = second ? b : a;
    made_.result = last.finish.defined() ? told(last.finish) : Expr::accumulator(last.body.dtype());
    made_.target = last.target;
    made_.store = told(last.store);
    // Sums are corrected by a factor when a larger score comes along: weights must be the exponents themselves.
    return weight->op == ExprOp::Load && weight->buffer == exponents().target &&
           reads_only(made_.value, {}) &&
           !(made_.query.valid() && te::variables_of(made_.value).count(made_.query)) &&
           te::variables_of(made_.value).count(column) && reads_only(made_.result, {made_.sum});
  }

  Expr unrounded(Expr weight) {
    while (weight->op == ExprOp::Cast && is_float(weight.dtype())) {
      if (bits_of(weight.dtype()) < bits_of(weight->operands[0].dtype())) made_.rounded = weight.dtype();
      weight = weight->operands[0];
    }
    return weight;
  }

  // Temporaries that an expression reads are among these.
  bool reads_only(const Expr& expr, const std::vector<BufferId>& buffers) const {
    bool only = true;
    te::for_each_node(expr, [&](const ExprNode& node) {
      if (!te::is_load(node) || !is_temporary(node.buffer)) return;
      only = only && std::ranges::find(buffers, node.buffer) != buffers.end();
    });
    return only;
  }

  const Formula& formula_;
  const AttentionKinds kinds_;
  AttentionParts made_;
  Substitution loops_;  // of every stage, by those of the scores
  std::map<BufferId, std::vector<Expr>> places_;  // where temporaries are written, by those
};

}  // namespace

std::optional<AttentionParts> attention_parts(const Formula& formula, const AttentionKinds& kinds) {
  return AttentionReader(formula, kinds).run();
}

Formula with_scores_finished(const Formula& formula) {
  if (formula.stages.size() < 2) return formula;
  const Stage &products = formula.stages[0], &scores = formula.stages[1];
  const bool follows = products.kind == Stage::Kind::MapReduce && products.reducer == Reducer::Sum &&
                       scores.kind == Stage::Kind::MapReduce && scores.reducer == Reducer::None &&
                       !scores.finish.defined() && !scores.guard.defined() && !products.guard.defined() &&
                       formula.buffer(products.target).role == BufferRole::Temporary;
  if (!follows) return formula;
  Substitution loops;
  bool fits = true;
  for (const Stage& stage : formula.stages) {
    te::for_each_node(stage, [&](const ExprNode& node) {
      if (!te::is_load(node) || node.buffer != products.target) return;
      const std::vector<Expr> index = te::index_of(node);
      fits = fits && &stage == &scores && index.size() == products.store.size();
      for (std::size_t d = 0; fits && d < index.size(); ++d)
        fits = te::matches(index[d], products.store[d], loops);
    });
  }
  for (VarId axis : scores.axes) {
    if (formula.variable(axis).extent.is(1)) loops.try_emplace(axis.index, Expr::index(0));
    auto found = loops.find(axis.index);
    fits = fits && found != loops.end() &&
           (found->second->op != ExprOp::Var ||
            formula.variable(found->second->var).extent == formula.variable(axis).extent);
  }
  if (!fits) return formula;
  const Expr sum = Expr::accumulator(products.body.dtype());
  const Expr rounded =
      te::cast(formula.buffer(products.target).dtype, products.finish.defined() ? products.finish : sum);
  te::Rewriter rewriter([&](const Expr& one) {
    return te::is_load(*one) && one->buffer == products.target ? rounded : Expr();
  });
  Formula made = formula;
  Stage& first = made.stages[0];
  first.target = scores.target;
  first.finish = te::substituted(rewriter(scores.body), loops);
  first.store = scores.store;
  for (Expr& place : first.store) place = te::substituted(place, loops);
  made.buffers[products.target.index].shape = {};  // nobody's any more
  made.stages.erase(made.stages.begin() + 1);
  return made;
}

namespace {

// By the rules of derivatives, where factors are known. Parts that stand several times are looked at once.
using Steepness = std::map<const te::ExprNode*, std::optional<double>>;
std::optional<double> steepness_of(const Expr& score, Steepness& known);

std::optional<double> steepness_anew(const Expr& score, Steepness& done) {
  if (score->op == ExprOp::Accumulator) return 1;
  std::vector<double> of;
  for (const Expr& operand : score->operands) {
    const std::optional<double> one = steepness_of(operand, done);
    if (!one) return std::nullopt;
    of.push_back(*one);
  }
  if (std::ranges::all_of(of, [](double one) { return one == 0; })) return 0;
  auto factor = [&](std::size_t operand) -> std::optional<double> {
    const Expr& one = score->operands[operand];
    return one.is_constant() && is_float(one.dtype()) ? std::optional(std::abs(one->float_value))
                                                      : std::nullopt;
  };
  switch (score->op) {
    case ExprOp::Neg:
    case ExprOp::Cast:
    case ExprOp::Abs:
    case ExprOp::Tanh: return of[0];
    case ExprOp::Add:
    case ExprOp::Sub: return of[0] + of[1];
    case ExprOp::Min:
    case ExprOp::Max: return std::max(of[0], of[1]);
    case ExprOp::Select: return of[0] == 0 ? std::optional(std::max(of[1], of[2])) : std::nullopt;
    case ExprOp::Mul:
      if (const auto known = factor(0)) return *known * of[1];
      if (const auto known = factor(1)) return of[0] * *known;
      return std::nullopt;
    case ExprOp::Div:
      if (const auto known = factor(1)) return of[0] / *known;
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<double> steepness_of(const Expr& score, Steepness& known) {
  const auto found = known.find(score.address());
  if (found != known.end()) return found->second;
  const std::optional<double> made = steepness_anew(score, known);
  known.emplace(score.address(), made);
  return made;
}

}  // namespace

std::optional<double> steepness(const Expr& score) {
  Steepness known;
  return steepness_of(score, known);
}

int powers_for_keys(const Dim& keys) {
  constexpr int kUnknown = 24;
  return keys.is_constant() ? std::bit_width(static_cast<std::uint64_t>(keys.constant())) : kUnknown;
}

Formula with_less_weights(const Formula& formula, BufferId weights, const Dim& keys) {
  Formula made = formula;
  for (Stage& stage : made.stages) {
    if (stage.target != weights || stage.reducer != Reducer::None) continue;
    stage.body = stage.body * Expr::number(stage.body.dtype(), std::ldexp(1.0, -powers_for_keys(keys)));
  }
  return made;
}

}  // namespace xyntra
