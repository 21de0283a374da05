#include "schedule/prepare.h"

#include <algorithm>

#include "schedule/lower_contraction.h"
#include "te/compose.h"

namespace xyntra {

using te::BufferId;
using te::BufferInfo;
using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::LinearIndex;
using te::Stage;
using te::VarId;

namespace {

class Preparation {
 public:
  Preparation(Formula formula, const Target& target, const SymbolBindings& nominal, bool turn)
      : formula_(std::move(formula)), target_(target), nominal_(nominal), turn_(turn) {}

  Formula run() {
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      if (formula_.stages[s].kind != Stage::Kind::MapReduce || formula_.stages[s].reduction.empty()) continue;
      while (auto border = border_of(formula_.stages[s])) {
        insert(s, std::move(border->stage), border->load, border->instead);
        ++s;
      }
      if (auto turned = turned_operand_of(s)) {
        insert(s, std::move(turned->stage), turned->load, turned->instead);
        ++s;
      }
      if (auto prologue = prologue_of(s)) {
        insert(s, std::move(prologue->stage), prologue->load, prologue->instead);
        ++s;
      }
    }
    return std::move(formula_);
  }

 private:
  // A stage to come before, and what then stands for a part of the body.
  struct Made {
    Stage stage;
    Expr load, instead;
  };

  void insert(std::size_t at, Stage stage, const Expr& part, const Expr& instead) {
    te::Rewriter rewriter([&](const Expr& expr) { return te::same(expr, part) ? instead : Expr(); });
    formula_.stages[at].body = rewriter(formula_.stages[at].body);
    formula_.stages.insert(formula_.stages.begin() + static_cast<std::ptrdiff_t>(at), std::move(stage));
  }

  VarId loop(const Dim& extent) {
    VarId made(formula_.variables.size());
    formula_.variables.push_back({"p" + std::to_string(made.index), extent});
    return made;
  }

  BufferId temporary(DType dtype, Shape shape) {
    BufferId made(formula_.buffers.size());
    formula_.buffers.push_back(
        {made, "p" + std::to_string(made.index), dtype, std::move(shape), BufferRole::Temporary, -1});
    return made;
  }

  // ---- borders

  // Lowest and highest value of a sum of loops with positive steps.
  std::optional<std::pair<Dim, Dim>> range_of(const Expr& index) const {
    LinearIndex linear = te::IndexAlgebra(formula_).linear(index);
    Dim low = linear.constant, high = linear.constant;
    for (const LinearIndex::Term& term : linear.terms) {
      bool counted = term.atom->op == ExprOp::Var && term.coefficient.is_constant();
      if (!counted || term.coefficient.constant() < 0) return std::nullopt;
      high = high + term.coefficient * (formula_.variable(term.atom->var).extent - 1);
    }
    return std::pair{low, high};
  }

  std::optional<Made> border_of(const Stage& stage) {
    std::optional<Made> made;
    std::vector<Expr> waiting{stage.body};
    while (!waiting.empty() && !made) {
      Expr expr = waiting.back();
      waiting.pop_back();
      for (const Expr& operand : expr->operands) waiting.push_back(operand);
      if (expr->op == ExprOp::LoadOr && expr->operands[0].is_constant()) made = with_border(stage, expr);
    }
    return made;
  }

  std::optional<Made> with_border(const Stage& stage, const Expr& load) {
    const BufferInfo source = formula_.buffer(load->buffer);
    std::vector<Expr> index = te::index_of(*load), from, instead;
    te::IndexAlgebra algebra(formula_);
    Made made;
    Shape shape;
    bool any = false;
    std::set<VarId> used = te::variables_of(load);
    bool reads_along = std::any_of(stage.reduction.begin(), stage.reduction.end(),
                                   [&](VarId k) { return used.count(k) != 0; });
    if (!reads_along) return std::nullopt;
    for (std::size_t d = 0; d < index.size(); ++d) {
      Dim low = 0, extent = source.shape[d];
      if (!algebra.within(index[d], 0, source.shape[d])) {
        auto range = range_of(index[d]);
        if (!range) return std::nullopt;
        low = range->first;
        extent = range->second - range->first + 1;
        any = true;
      }
      VarId axis = loop(extent);
      made.stage.axes.push_back(axis);
      shape.push_back(extent);
      from.push_back(Expr::variable(axis) + Expr::size(low));
      instead.push_back(index[d] - Expr::size(low));
    }
    if (!any) return std::nullopt;
    BufferId padded = temporary(source.dtype, std::move(shape));
    made.stage.target = padded;
    for (VarId axis : made.stage.axes) made.stage.store.push_back(Expr::variable(axis));
    made.stage.body = Expr::load_or(load->operands[0], load->buffer, std::move(from));
    made.load = load;
    te::IndexAlgebra simplify(formula_);
    for (Expr& one : instead) one = simplify.simplified(one);
    made.instead = Expr::load(padded, source.dtype, std::move(instead));
    return made;
  }

  // ---- operands that lie the other way round

  // Lanes run along an axis of the result that one operand is not contiguous in: it is turned round first. It pays when
  // many rows read what was turned.
  std::optional<Made> turned_operand_of(std::size_t s) {
    const Stage& stage = formula_.stages[s];
    bool products = stage.reducer == te::Reducer::Sum && stage.body->op == ExprOp::Mul;
    if (!turn_ || !products || row_factor_of(formula_, s, target_, nominal_).defined()) return std::nullopt;
    Lowering probe(formula_, target_, nominal_, "probe");
    probe.place_temporaries(kir::Scope::Workspace);
    for (const Expr& factor : stage.body->operands) {
      const Expr& other =
          &factor == &stage.body->operands[0] ? stage.body->operands[1] : stage.body->operands[0];
      if (factor->op != ExprOp::Load) continue;
      std::set<VarId> used = te::variables_of(factor), of_other = te::variables_of(other);
      for (VarId axis : stage.axes) {
        auto stored = probe.stride(stage.target, stage.store, axis);
        bool lane = used.count(axis) && !of_other.count(axis) && stored && stored->is(1);
        if (lane && probe.size(formula_.variable(axis).extent) >= 8) return kept(stage, factor, axis);
      }
    }
    return std::nullopt;
  }

  // ---- prologues

  std::optional<Made> prologue_of(std::size_t s) {
    Expr factor = row_factor_of(formula_, s, target_, nominal_);
    if (!factor.defined() || te::work_of(factor) == 0) return std::nullopt;
    const Stage& stage = formula_.stages[s];
    // Windows read an element from several places: they would make it several times.
    bool mixes = false;
    te::for_each_node(factor, [&](const ExprNode& node) {
      if (!te::is_load(node)) return;
      for (const Expr& index : te::index_of(node)) mixes = mixes || te::variables_of(index).size() > 1;
    });
    if (mixes) return std::nullopt;
    return kept(stage, factor, {});
  }

  // A part of the body as a stage of its own, one element for each turn of the loops it depends on; `last` is the
  // innermost of them.
  Made kept(const Stage& stage, const Expr& part, VarId last) {
    Made made;
    te::Substitution fresh;
    Shape shape;
    std::vector<Expr> place;
    std::set<VarId> used = te::variables_of(part);
    std::vector<VarId> order;
    for (const auto* list : {&stage.axes, &stage.reduction}) {
      for (VarId axis : *list) {
        if (used.count(axis) && axis != last) order.push_back(axis);
      }
    }
    if (last.valid()) order.push_back(last);
    for (VarId axis : order) {
      Dim extent = formula_.variable(axis).extent;
      VarId own = loop(extent);
      fresh[axis.index] = Expr::variable(own);
      made.stage.axes.push_back(own);
      shape.push_back(extent);
      place.push_back(Expr::variable(axis));
    }
    BufferId target = temporary(part.dtype(), std::move(shape));
    made.stage.target = target;
    for (VarId axis : made.stage.axes) made.stage.store.push_back(Expr::variable(axis));
    made.stage.body = te::substituted(part, fresh);
    made.load = part;
    made.instead = Expr::load(target, part.dtype(), std::move(place));
    return made;
  }

  Formula formula_;
  const Target& target_;
  const SymbolBindings& nominal_;
  bool turn_;
};

}  // namespace

Formula prepare_main_loop(const Formula& formula, const Target& target, const SymbolBindings& nominal,
                          bool turn_operands) {
  return Preparation(formula, target, nominal, turn_operands).run();
}

}  // namespace xyntra
