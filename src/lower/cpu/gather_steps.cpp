#include "lower/cpu/gather_steps.h"

#include <algorithm>
#include <optional>

#include "schedule/contraction/contraction_roles.h"
#include "te/index/index.h"
#include "te/index/merge.h"
#include "te/walk.h"

namespace xyntra {

using te::BufferId;
using te::Expr;
using te::Formula;
using te::LinearIndex;
using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kReadings =
    16;  // of an element; where there are fewer, laying it elsewhere does not pay

// The one loop that walks along each dimension of a load; invalid where its place is fixed.
struct Walked {
  std::vector<VarId> loops;
  bool in_steps = false;  // along an axis of the result
};

std::optional<Walked> walked_by(const Formula& formula, const Stage& stage, const Expr& load) {
  Walked walked;
  const te::IndexAlgebra algebra(formula);
  for (const Expr& index : te::index_of(*load)) {
    const LinearIndex linear = algebra.linear(index);
    if (linear.terms.size() > 1) return std::nullopt;  // windows overlap, and read an element often as it is
    if (linear.terms.empty()) {
      walked.loops.emplace_back();
      continue;
    }
    const LinearIndex::Term& term = linear.terms.front();
    if (term.atom->op != te::ExprOp::Var || !term.coefficient.is_constant()) return std::nullopt;
    const VarId loop = term.atom->var;
    if (std::ranges::find(walked.loops, loop) != walked.loops.end()) return std::nullopt;
    walked.loops.push_back(loop);
    const bool of_result = std::ranges::find(stage.axes, loop) != stage.axes.end();
    walked.in_steps = walked.in_steps || (of_result && term.coefficient.constant() > 1);
  }
  return walked;
}

std::int64_t readings(const Formula& formula, const Stage& stage, const Expr& load,
                      const SymbolBindings& nominal) {
  const std::set<VarId> used = te::variables_of(load);
  std::int64_t product = 1;
  for (VarId axis : stage.axes) {
    const Dim extent = formula.variable(axis).extent.substitute(nominal);
    if (!used.count(axis) && extent.is_constant()) product *= extent.constant();
  }
  return product;
}

std::vector<Expr> variables(const std::vector<VarId>& loops) {
  std::vector<Expr> made;
  for (VarId loop : loops) made.push_back(Expr::variable(loop));
  return made;
}

// An index of some dimensions where neighbours of them have become one; nothing where they have become anything else.
std::optional<std::vector<Expr>> joined(const Formula& formula, const Shape& before, const Shape& now,
                                        const std::vector<Expr>& index) {
  std::vector<Expr> made;
  std::size_t next = 0;
  for (const Dim& size : now) {
    Dim extent = 1;
    Expr place = Expr::index(0);
    do {
      if (next == before.size()) return std::nullopt;
      extent = extent * before[next];
      place = place * Expr::size(before[next]) + index[next];
      ++next;
    } while (extent != size && next < before.size());
    if (extent != size) return std::nullopt;
    made.push_back(te::IndexAlgebra(formula).simplified(place));
  }
  if (next != before.size()) return std::nullopt;
  return made;
}

// g for the s-th stage, which reads it afterwards; the axes that are now contiguous have become one.
bool gather(Formula& formula, std::size_t s, const Expr& load, const std::vector<VarId>& walked) {
  const BufferId gathered(formula.buffers.size());
  Stage copy;
  std::vector<Expr> place;
  te::Substitution own;
  Shape shape;
  for (VarId loop : walked) {
    if (!loop.valid() || formula.variable(loop).extent.is(1)) continue;
    const VarId made(formula.variables.size());
    formula.variables.push_back({"g" + std::to_string(made.index), formula.variable(loop).extent});
    own[loop.index] = Expr::variable(made);
    copy.axes.push_back(made);
    shape.push_back(formula.variable(loop).extent);
    place.push_back(Expr::variable(loop));
  }
  formula.buffers.push_back(
      {gathered, "g" + std::to_string(gathered.index), load.dtype(), shape, te::BufferRole::Temporary, -1});
  copy.target = gathered;
  for (VarId loop : te::variables_of(load)) own.try_emplace(loop.index, Expr::index(0));  // of one turn
  copy.body = te::substituted(load, own);
  const Expr instead = Expr::load(gathered, load.dtype(), std::move(place));
  te::Rewriter rewriter([&](const Expr& expr) { return te::same(expr, load) ? instead : Expr(); });
  rewriter(formula.stages[s]);
  const Shape before = formula.buffer(load->buffer).shape;
  te::merge_axes(formula);
  auto read = joined(formula, before, formula.buffer(load->buffer).shape, te::index_of(*copy.body));
  auto written = joined(formula, shape, formula.buffer(gathered).shape, variables(copy.axes));
  if (!read || !written) return false;
  copy.body = Expr::load(load->buffer, load.dtype(), std::move(*read));
  copy.store = std::move(*written);
  formula.stages.insert(formula.stages.begin() + static_cast<std::ptrdiff_t>(s), std::move(copy));
  return true;
}

}  // namespace

Formula gather_steps(const Formula& formula, const Target& target, const SymbolBindings& nominal) {
  for (std::size_t s = 0; s < formula.stages.size(); ++s) {
    const Stage& stage = formula.stages[s];
    const bool sums = stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::Sum;
    const Expr rows = sums ? row_factor_of(formula, s, target, nominal) : Expr();
    if (!rows.defined() || rows->op != te::ExprOp::Load) continue;
    const auto walked = walked_by(formula, stage, rows);
    if (!walked || !walked->in_steps || readings(formula, stage, rows, nominal) < kReadings) continue;
    Formula made = formula;
    if (gather(made, s, rows, walked->loops)) return made;
  }
  return formula;
}

}  // namespace xyntra
