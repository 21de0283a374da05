#include "schedule/prepare/split_finish.h"

#include <algorithm>
#include <unordered_set>

#include "schedule/analysis/stage_vectorization.h"
#include "schedule/contraction/contraction_roles.h"
#include "schedule/prepare/function_parts.h"
#include "te/compose/compose.h"
#include "te/cost/effort.h"
#include "te/index/index.h"
#include "te/index/merge.h"

namespace xyntra {

using te::Expr;
using te::ExprOp;
using te::Formula;
using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kHeavy = 8;  // operations
constexpr std::int64_t kChained = 32;  // quarters of a cycle: steps that wait for one another
constexpr std::int64_t kFewestTogether = 4;  // vectors whose steps fill the waiting
constexpr std::int64_t kWorthAStage = 1 << 9;  // operations of all elements together

bool fills_lanes(const Formula& formula, const Stage& stage, const Schedule& schedule, const Target& target,
                 const SymbolBindings& nominal, bool known) {
  AccessAnalysis probe(formula, target, nominal);
  const bool function = functions_in(stage.finish) && te::effort_of(stage.finish) >= kChained;
  if (const auto roles = contraction_roles(probe, stage)) {
    if (function && sums_together(probe, *roles) < kFewestTogether) return false;
    const Dim& lanes = formula.variable(roles->lane).extent;
    return 4 * probe.size(lanes) >= 3 * probe.vector_steps(lanes) * probe.lanes();
  }
  return !(function && known) &&
         StageVectorization(probe, stage, stage.axes, schedule.exactness == Exactness::Exact)
             .finishes_in_vectors();
}

bool depends_on_place(const te::ExprNode& node) {
  return node.op == ExprOp::Accumulator || node.op == ExprOp::Var || te::is_load(node);
}

// Whether the reduced value is read by a part of an expression alone.
bool reads_value_in(const Expr& whole, const Expr& part) {
  std::vector<Expr> waiting{whole};
  std::unordered_set<const te::ExprNode*> seen;
  bool met = false;
  while (!waiting.empty()) {
    const Expr expr = waiting.back();
    waiting.pop_back();
    met = met || expr.address() == part.address();
    if (expr.address() == part.address() || !seen.insert(expr.address()).second) continue;
    if (expr->op == ExprOp::Accumulator) return false;
    waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
  }
  return met;
}

// The smallest part that the whole is made of: what the place of a result has a say in.
Expr part_by_place(const Expr& whole) {
  Expr best = whole;
  for (bool smaller = true; smaller;) {
    smaller = false;
    std::vector<Expr> waiting(best->operands.begin(), best->operands.end());
    std::unordered_set<const te::ExprNode*> seen;
    while (!waiting.empty() && !smaller) {
      const Expr expr = waiting.back();
      waiting.pop_back();
      if (!seen.insert(expr.address()).second || expr.dtype() != whole.dtype()) continue;
      smaller = is_made_of(best, expr);
      if (smaller) best = expr;
      waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
    }
  }
  return best;
}

}  // namespace

bool is_made_of(const Expr& whole, const Expr& part) {
  std::vector<Expr> waiting{whole};
  std::unordered_set<const te::ExprNode*> seen;
  while (!waiting.empty()) {
    const Expr expr = waiting.back();
    waiting.pop_back();
    if (expr.address() == part.address() || !seen.insert(expr.address()).second) continue;
    if (depends_on_place(*expr)) return false;
    waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
  }
  return true;
}

PlaceFree place_free_part(const Expr& finish) {
  PlaceFree best;
  std::int64_t most = kHeavy;
  std::vector<Expr> waiting{finish};
  std::unordered_set<const te::ExprNode*> seen;
  while (!waiting.empty()) {
    const Expr whole = waiting.back();
    waiting.pop_back();
    if (!seen.insert(whole.address()).second || te::is_load(*whole)) continue;
    waiting.insert(waiting.end(), whole->operands.begin(), whole->operands.end());
    if (whole.dtype() != DType::F32 || te::work_of(whole) < most) continue;
    const Expr of = part_by_place(whole);
    const std::int64_t saved = te::work_of(whole) - te::work_of(of);
    if (of.address() == whole.address() || saved <= most || of.dtype() != whole.dtype()) continue;
    if (!reads_value_in(finish, whole)) continue;  // its place is taken by the whole
    most = saved;
    best = {whole, of};
  }
  return best;
}

Formula split_finish(const Formula& formula, const Schedule& schedule, const Target& target,
                     const SymbolBindings& nominal) {
  if (formula.stages.empty()) return formula;
  const Stage& last = formula.stages.back();
  const bool reduces =
      last.kind == Stage::Kind::MapReduce && !last.reduction.empty() && last.finish.defined();
  if (!reduces || te::work_of(last.finish) < kHeavy) return formula;
  // The first axis, which stays by itself where its size is not known, may have any.
  const bool known = std::all_of(last.axes.begin() + (last.axes.size() > 1 ? 1 : 0), last.axes.end(),
                                 [&](VarId axis) { return formula.variable(axis).extent.is_constant(); });
  AccessAnalysis sizes(formula, target, nominal);
  std::int64_t elements = 1;
  for (VarId axis : last.axes) elements *= sizes.size(formula.variable(axis).extent);
  if (elements * te::work_of(last.finish) < kWorthAStage) return formula;
  if (fills_lanes(formula, last, schedule, target, nominal, known)) return formula;
  Formula made = formula;
  Stage& reducing = made.stages.back();
  const Expr by_place = part_by_place(reducing.finish);
  // Digits of sizes that are not known could not be shown to be in bounds.
  // Functions before the last place that has a say are not left to run element by element.
  const bool apart =
      known && te::work_of(by_place) + kHeavy <= te::work_of(reducing.finish) && !functions_in(by_place);
  Stage finish;
  te::Substitution own;
  Shape shape;
  std::vector<Expr> place, stored;
  if (!apart) {
    for (VarId axis : reducing.axes) {
      const VarId fresh(made.variables.size());
      made.variables.push_back({made.variable(axis).name, made.variable(axis).extent});
      own[axis.index] = Expr::variable(fresh);
      finish.axes.push_back(fresh);
      shape.push_back(made.variable(axis).extent);
      place.push_back(Expr::variable(axis));
      stored.push_back(Expr::variable(fresh));
    }
  } else {
    // One loop over all elements, of which the axes are digits.
    auto outermost = reducing.axes.rend();
    if (!reducing.axes.empty() && !made.variable(reducing.axes.front()).extent.is_constant()) {
      const VarId first = reducing.axes.front(), fresh(made.variables.size());
      made.variables.push_back({made.variable(first).name, made.variable(first).extent});
      own[first.index] = Expr::variable(fresh);
      finish.axes.push_back(fresh);
      shape.push_back(made.variable(first).extent);
      place.push_back(Expr::variable(first));
      stored.push_back(Expr::variable(fresh));
      --outermost;
    }
    const VarId all(made.variables.size());
    Dim count = 1;
    Expr number = Expr::index(0);
    for (auto axis = reducing.axes.rbegin(); axis != outermost; ++axis) {
      const Dim extent = made.variable(*axis).extent;
      const Expr rest = te::floor_div(Expr::variable(all), Expr::size(count));
      own[axis->index] = axis + 1 == outermost ? rest : te::mod(rest, Expr::size(extent));
      number = number + Expr::variable(*axis) * Expr::size(count);
      count = count * extent;
    }
    made.variables.push_back({"f", count});
    finish.axes.push_back(all);
    shape.push_back(count);
    place.push_back(te::IndexAlgebra(made).simplified(number));
    stored.push_back(Expr::variable(all));
  }
  const DType dtype = apart ? by_place.dtype() : reducing.body.dtype();
  const te::BufferId kept(made.buffers.size());
  made.buffers.push_back(
      {kept, "m" + std::to_string(kept.index), dtype, std::move(shape), te::BufferRole::Temporary, -1});
  const Expr reduced = Expr::load(kept, dtype, std::move(stored));
  te::Rewriter with_reduced([&](const Expr& expr) {
    const bool found = apart ? te::same(expr, by_place) : expr->op == ExprOp::Accumulator;
    return found ? reduced : Expr();
  });
  finish.body = with_reduced(apart ? reducing.finish : te::substituted(reducing.finish, own));
  for (const Expr& index : reducing.store)
    finish.store.push_back(te::IndexAlgebra(made).simplified(te::substituted(index, own)));
  finish.target = reducing.target;
  reducing.finish = apart && by_place->op != ExprOp::Accumulator ? by_place : Expr();
  reducing.target = kept;
  reducing.store = std::move(place);
  made.stages.push_back(std::move(finish));
  te::merge_axes(made);
  return made;
}

}  // namespace xyntra
