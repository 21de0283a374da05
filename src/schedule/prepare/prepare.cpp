#include "schedule/prepare/prepare.h"

#include <algorithm>
#include <map>
#include <numbers>
#include <set>
#include <unordered_set>

#include "schedule/contraction/contraction_tiling.h"
#include "schedule/contraction/tile_form.h"
#include "schedule/prepare/pack_operand.h"
#include "schedule/prepare/softmax_stages.h"
#include "te/compose/compose.h"
#include "te/masked_rows.h"
#include "te/match.h"

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

constexpr std::int64_t kRowsToTurnFor = 4;  // one query of a decoder reads its keys where they are
// Of other products: lanes of dot products are added up for each result, which short ones take as long for as for all the rest.
constexpr std::int64_t kFewestRowsToTurnFor = 8, kTermsForARow = 8;

class Preparation {
 public:
  Preparation(Formula formula, const Schedule& schedule, const Target& target, const SymbolBindings& nominal,
              bool turn)
      : formula_(std::move(formula)), schedule_(schedule), target_(target), nominal_(nominal), turn_(turn) {}

  Formula run() {
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      if (formula_.stages[s].kind != Stage::Kind::MapReduce || formula_.stages[s].reduction.empty()) continue;
      if (skips_border(formula_, s, schedule_, target_, nominal_)) continue;
      while (auto border = border_of(formula_.stages[s])) {
        insert(s, std::move(border->stage), border->load, border->instead);
        ++s;
      }
      if (auto turned = turned_operand_of(s)) {
        insert(s, std::move(turned->stage), turned->load, turned->instead);
        ++s;
      }
      if (auto gathered = scattered_operand_of(s)) {
        insert(s, std::move(gathered->stage), gathered->load, gathered->instead);
        std::rotate(formula_.stages.begin(), formula_.stages.begin() + static_cast<std::ptrdiff_t>(s),
                    formula_.stages.begin() + static_cast<std::ptrdiff_t>(s + 1));  // it reads inputs alone
        ++s;
      }
      if (auto prologue = prologue_of(s)) {
        insert(s, std::move(prologue->stage), prologue->load, prologue->instead);
        ++s;
      }
      for (int factor = 0; factor < 2; ++factor) {
        auto packed = packed_operand_of(s);
        if (!packed) break;
        insert(s, std::move(packed->stage), packed->part, packed->instead);
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
    // Narrow pictures become wide ones on the way: a window reads each element several times.
    if (stage.body->op == ExprOp::Mul) {
      for (const Expr& factor : stage.body->operands) {
        const Expr load = narrow_factor(formula_, factor);
        if (!made && load.defined() && load->op == ExprOp::LoadOr) made = with_border(stage, load, factor);
      }
    }
    std::vector<Expr> waiting{stage.body};
    te::Visited seen;
    while (!waiting.empty() && !made) {
      Expr expr = waiting.back();
      waiting.pop_back();
      if (!seen.insert(expr.address())) continue;
      if (te::chooses_by_place(*expr)) continue;  // what is read on one side may lie nowhere on the other
      for (const Expr& operand : expr->operands) waiting.push_back(operand);
      if (expr->op == ExprOp::LoadOr && expr->operands[0].is_constant() && !is_in_prologue(stage, expr))
        made = with_border(stage, expr, expr);
    }
    return made;
  }

  // Each place of a load by a loop of its own, in a factor that is computed and packed: its border is filled on the way.
  bool is_in_prologue(const Stage& stage, const Expr& load) const {
    if (stage.body->op != ExprOp::Mul) return false;
    if (std::ranges::any_of(stage.body->operands, [&](const Expr& factor) { return te::same(factor, load); }))
      return false;
    const te::IndexAlgebra algebra(formula_);
    return std::ranges::all_of(te::index_of(*load),
                               [&](const Expr& place) { return algebra.linear(place).terms.size() <= 1; });
  }

  // `part` of the body is the load, or what it is widened to.
  std::optional<Made> with_border(const Stage& stage, const Expr& load, const Expr& part) {
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
    BufferId padded = temporary(part.dtype(), std::move(shape));
    made.stage.target = padded;
    for (VarId axis : made.stage.axes) made.stage.store.push_back(Expr::variable(axis));
    made.stage.body = te::cast(part.dtype(), Expr::load_or(load->operands[0], load->buffer, std::move(from)));
    made.load = part;
    te::IndexAlgebra simplify(formula_);
    for (Expr& one : instead) one = simplify.simplified(one);
    made.instead = Expr::load(padded, part.dtype(), std::move(instead));
    return made;
  }

  // ---- operands that lie the other way round

  // Lanes run along an axis of the result that one operand is not contiguous in: it is turned round first. It pays when
  // many rows read what was turned.
  std::optional<Made> turned_operand_of(std::size_t s) {
    const Stage& stage = formula_.stages[s];
    bool products = stage.reducer == te::Reducer::Sum && stage.body->op == ExprOp::Mul;
    const bool matrices = schedule_.kind == ScheduleKind::Contraction && target_.kind == TargetKind::Cpu;
    if ((!turn_ && !matrices) || !products || row_factor_of(formula_, s, target_, nominal_).defined())
      return std::nullopt;
    AccessAnalysis probe(formula_, target_, nominal_);
    std::int64_t terms = 1;
    for (VarId k : stage.reduction)
      terms *= std::max<std::int64_t>(1, probe.size(formula_.variable(k).extent));
    const std::int64_t least = turn_ ? kRowsToTurnFor : std::max(kFewestRowsToTurnFor, terms / kTermsForARow);
    for (const Expr& factor : stage.body->operands) {
      const Expr& other =
          &factor == &stage.body->operands[0] ? stage.body->operands[1] : stage.body->operands[0];
      std::set<VarId> used = te::variables_of(factor), of_other = te::variables_of(other);
      for (VarId axis : stage.axes) {
        auto stored = probe.stride(stage.target, stage.store, axis);
        bool lane = used.count(axis) && !of_other.count(axis) && stored && stored->is(1);
        if (!lane || probe.size(formula_.variable(axis).extent) < 8) continue;
        if (rows_reading(probe, stage, used) >= least) return kept(stage, factor, axis);
      }
    }
    return std::nullopt;
  }

  // Rows of an operand that lie far apart, those of one head between others', share few places of the L1 cache: they
  // are made contiguous first. It pays when many rows of the other one read them.
  std::optional<Made> scattered_operand_of(std::size_t s) {
    constexpr std::int64_t kFarApart = 1024;  // bytes
    const Stage& stage = formula_.stages[s];
    const Expr row = turn_ ? row_factor_of(formula_, s, target_, nominal_) : Expr();
    if (!row.defined() || stage.reduction.size() != 1) return std::nullopt;
    const Expr& factor = stage.body->operands[te::same(stage.body->operands[0], row) ? 1 : 0];
    if (factor->op != ExprOp::Load || formula_.buffer(factor->buffer).role != BufferRole::Input)
      return std::nullopt;
    AccessAnalysis probe(formula_, target_, nominal_);
    const auto apart = probe.stride(factor->buffer, te::index_of(*factor), stage.reduction[0]);
    if (!apart || !apart->is_constant() || apart->constant() * bits_of(factor.dtype()) / 8 < kFarApart)
      return std::nullopt;
    const std::set<VarId> used = te::variables_of(factor);
    if (rows_reading(probe, stage, used) < 4 * kRowsToTurnFor) return std::nullopt;
    for (VarId axis : stage.axes) {
      const auto along = probe.stride(factor->buffer, te::index_of(*factor), axis);
      if (!along || !along->is(1)) continue;
      if (*apart == formula_.variable(axis).extent) return std::nullopt;  // one follows the other already
      return kept(stage, factor, axis);
    }
    return std::nullopt;
  }

  // How often an element of a factor is read: turns of the loops that it does not depend on.
  std::int64_t rows_reading(const AccessAnalysis& probe, const Stage& stage,
                            const std::set<VarId>& used) const {
    std::int64_t rows = 1;
    for (VarId axis : stage.axes) {
      if (!used.count(axis)) rows *= std::max<std::int64_t>(1, probe.size(formula_.variable(axis).extent));
    }
    return rows;
  }

  // ---- operands that take an index computation

  std::optional<PackedOperand> packed_operand_of(std::size_t s) {
    if (target_.kind != TargetKind::Cpu) return std::nullopt;
    const Stage stage = formula_.stages[s];
    const bool products = stage.reducer == te::Reducer::Sum && stage.body->op == ExprOp::Mul;
    if (!products) return pack_operand(formula_, stage, stage.body, nominal_, Packed::Any);
    // Of matrices, lines of the other factor are made in panels (line_panels.h).
    const Expr row = row_factor_of(formula_, s, target_, nominal_);
    const bool has_lanes = row.defined() || has_roles(s);
    for (const Expr& factor : stage.body->operands) {
      const bool any = !row.defined() || te::same(factor, row) || is_made_often(stage, factor);
      const Packed which = !has_lanes ? Packed::Strided : any ? Packed::Any : Packed::Windows;
      if (auto packed = pack_operand(formula_, stage, factor, nominal_, which)) return packed;
    }
    return std::nullopt;
  }

  bool has_roles(std::size_t s) const {
    AccessAnalysis probe(formula_, target_, nominal_);
    return contraction_roles(probe, formula_.stages[s]).has_value();
  }

  // Whether several tiles of rows would compute it; what widens in registers is read from memory sooner.
  bool is_made_often(const Stage& stage, const Expr& factor) const {
    constexpr std::int64_t kRowsOfTwoTiles = 24;
    AccessAnalysis probe(formula_, target_, nominal_);
    return te::work_of(factor) > 0 &&
           rows_reading(probe, stage, te::variables_of(factor)) > kRowsOfTwoTiles &&
           !te::any_load(factor, [&](const ExprNode& load) {
             return bits_of(formula_.buffer(load.buffer).dtype) < bits_of(factor.dtype());
           });
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
      for (const Expr& index : te::index_of(node)) mixes = mixes || !reads_once(index);
    });
    if (mixes) return std::nullopt;
    return kept(stage, factor, {});
  }

  // Whether no two turns of the loops of an index read the same place: there is one, or they stand inside one another like the
  // digits of a number.
  bool reads_once(const Expr& index) const {
    if (te::variables_of(index).size() < 2) return true;
    std::vector<LinearIndex::Term> terms = te::IndexAlgebra(formula_).linear(index).terms;
    auto counted = [](const LinearIndex::Term& term) {
      return term.atom->op == ExprOp::Var && term.coefficient.is_constant() &&
             term.coefficient.constant() > 0;
    };
    if (!std::ranges::all_of(terms, counted)) return false;
    std::ranges::sort(terms, {}, [](const LinearIndex::Term& term) { return term.coefficient.constant(); });
    Dim places = 1;  // of the loops inside
    for (const LinearIndex::Term& term : terms) {
      if (!places.is_constant() || term.coefficient.constant() < places.constant()) return false;
      places = term.coefficient * formula_.variable(term.atom->var).extent;
    }
    return true;
  }

  // A part of the body as a stage of its own, one element for each turn of the loops it depends on; `last` is the
  // innermost of them, or those along which results are neighbours.
  Made kept(const Stage& stage, const Expr& part, VarId last) {
    Made made;
    te::Substitution fresh;
    Shape shape;
    std::vector<Expr> place;
    std::set<VarId> used = te::variables_of(part);
    const std::vector<VarId> inner =
        last.valid() ? std::vector{last} : result_neighbours(formula_, stage, part);
    std::vector<VarId> order;
    for (const auto* list : {&stage.axes, &stage.reduction}) {
      for (VarId axis : *list) {
        if (used.count(axis) && std::ranges::find(inner, axis) == inner.end()) order.push_back(axis);
      }
    }
    order.insert(order.end(), inner.rbegin(), inner.rend());
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
  const Schedule& schedule_;
  const Target& target_;
  const SymbolBindings& nominal_;
  bool turn_;
};

// Worth a place in memory: a function takes as long as dozens of loads.
bool is_heavy(const Expr& body) {
  bool found = false;
  te::for_each_node(
      body, [&](const ExprNode& node) { found = found || te::kind_of(node.op) == te::ExprKind::Math; });
  return found;
}

bool reads_several(const Expr& body) {
  std::set<BufferId> read;
  te::for_each_node(body, [&](const ExprNode& node) {
    if (te::is_load(node)) read.insert(node.buffer);
  });
  return read.size() > 1;
}

// Without the roundings to other floats around it.
Expr uncast(Expr expr) {
  while (expr->op == ExprOp::Cast && is_float(expr.dtype()) && is_float(expr->operands[0].dtype()))
    expr = expr->operands[0];
  return expr;
}

// A weight as it is before it is rounded, and replaced where it is NaN.
struct Weight {
  Expr expr;
  bool guarded = false;
};
Weight plain_weight(const Expr& expr) {
  const Expr rounded = uncast(expr), weight = te::guarded_weight(rounded);
  return weight.defined() ? Weight{uncast(weight), true} : Weight{rounded};
}

// Whether a quotient is an exponent of a softmax by the sum of them all.
bool is_share_of_exponents(const Formula& formula, const Expr& quotient) {
  const Expr &exponent = quotient->operands[0], &sum = quotient->operands[1];
  if (exponent->op != ExprOp::Load || sum->op != ExprOp::Load) return false;
  const auto writer = std::ranges::find(formula.stages, sum->buffer, &Stage::target);
  return writer != formula.stages.end() && adds_exponents(formula, *writer, exponent->buffer);
}

// The first part of an expression that is `part` under other loops.
Expr find_renamed(const Expr& part, const Expr& root, std::map<VarId, VarId>& loops) {
  std::vector<Expr> waiting{root};
  std::unordered_set<const ExprNode*> seen;
  while (!waiting.empty()) {
    Expr expr = waiting.back();
    waiting.pop_back();
    if (!seen.insert(expr.address()).second) continue;
    loops.clear();
    if (expr->op == part->op && te::is_renamed(part, expr, loops)) return expr;
    for (const Expr& operand : expr->operands) waiting.push_back(operand);
  }
  return {};
}

}  // namespace

Formula share_heavy_parts(const Formula& formula, const Sharing& sharing) {
  Formula shared = formula;
  for (std::size_t s = 0; s + 1 < shared.stages.size(); ++s) {
    const Stage stage = shared.stages[s];
    if (stage.kind != Stage::Kind::MapReduce || stage.reduction.empty()) continue;
    if (!is_heavy(stage.body) && !(sharing.sums && reads_several(stage.body))) continue;
    Dim row = 1;
    for (VarId loop : stage.reduction) row = row * shared.variable(loop).extent;
    if (row.is_constant() && row.constant() > sharing.most) continue;
    std::vector<VarId> loops = stage.axes;
    loops.insert(loops.end(), stage.reduction.begin(), stage.reduction.end());
    BufferId kept;
    for (std::size_t later = s + 1; later < shared.stages.size(); ++later) {
      Stage& reader = shared.stages[later];
      std::map<VarId, VarId> renamed;
      if (reader.kind != Stage::Kind::MapReduce || (!sharing.sums && !reader.reduction.empty())) continue;
      Expr part = find_renamed(stage.body, reader.body, renamed);
      bool whole = part.defined() && std::all_of(loops.begin(), loops.end(), [&](VarId loop) {
                     auto found = renamed.find(loop);
                     return shared.variable(loop).extent.is(1) ||
                            (found != renamed.end() &&
                             shared.variable(found->second).extent == shared.variable(loop).extent);
                   });
      if (!whole) continue;
      if (!kept.valid()) {
        kept = BufferId(shared.buffers.size());
        Shape shape;
        for (VarId loop : loops) shape.push_back(shared.variable(loop).extent);
        shared.buffers.push_back({kept, "e" + std::to_string(kept.index), stage.body.dtype(),
                                  std::move(shape), BufferRole::Temporary, -1});
      }
      std::vector<Expr> place;
      for (VarId loop : loops) {
        auto found = renamed.find(loop);
        place.push_back(found == renamed.end() ? Expr::index(0) : Expr::variable(found->second));
      }
      Expr instead = Expr::load(kept, stage.body.dtype(), std::move(place));
      te::Rewriter rewriter([&](const Expr& expr) { return te::same(expr, part) ? instead : Expr(); });
      reader.body = rewriter(reader.body);
    }
    if (!kept.valid()) continue;
    Stage made;
    te::Substitution fresh;
    for (VarId loop : loops) {
      VarId own(shared.variables.size());
      shared.variables.push_back({"e" + std::to_string(own.index), shared.variable(loop).extent});
      fresh[loop.index] = Expr::variable(own);
      made.axes.push_back(own);
      made.store.push_back(Expr::variable(own));
    }
    made.target = kept;
    made.body = te::substituted(stage.body, fresh);
    std::vector<Expr> place;
    for (VarId loop : loops) place.push_back(Expr::variable(loop));
    shared.stages[s].body = Expr::load(kept, stage.body.dtype(), std::move(place));
    shared.stages.insert(shared.stages.begin() + static_cast<std::ptrdiff_t>(s), std::move(made));
    ++s;
  }
  return shared;
}

Formula divide_at_the_end(const Formula& formula, GuardedWeights guarded) {
  Formula made = formula;
  for (std::size_t s = 0; s + 1 < made.stages.size(); ++s) {
    const Stage weights = made.stages[s];
    const bool is_weight = weights.kind == Stage::Kind::MapReduce && weights.reduction.empty();
    if (!is_weight) continue;
    const auto [quotient, guarded_there] = plain_weight(weights.body);
    bool divides = quotient->op == ExprOp::Div && is_float(weights.body.dtype()) &&
                   made.buffer(weights.target).role == BufferRole::Temporary &&
                   made.buffer(weights.target).dtype == weights.body.dtype();
    if (!divides) continue;
    std::vector<std::size_t> reads;  // by which stage
    for (std::size_t later = 0; later < made.stages.size(); ++later) {
      if (te::reads(made.stages[later], weights.target)) reads.push_back(later);
    }
    if (reads.size() != 1 || reads[0] <= s) continue;
    Stage& sum = made.stages[reads[0]];
    bool products = sum.kind == Stage::Kind::MapReduce && sum.reducer == te::Reducer::Sum &&
                    !sum.reduction.empty() && sum.body->op == ExprOp::Mul;
    if (!products) continue;
    for (std::size_t side = 0; side < 2; ++side) {
      const Expr factor = sum.body->operands[side], other = sum.body->operands[1 - side];
      const auto [load, guarded_here] = plain_weight(factor);
      if (load->op != ExprOp::Load || load->buffer != weights.target || te::reads(other, weights.target) ||
          (sum.finish.defined() && te::reads(sum.finish, weights.target)))
        continue;
      const bool guards = guarded_there || guarded_here;
      if (guards && (guarded == GuardedWeights::Stay || !is_share_of_exponents(made, quotient))) continue;
      te::Substitution at;
      std::vector<Expr> index = te::index_of(*load);
      bool plain = index.size() == weights.store.size();
      for (std::size_t d = 0; plain && d < index.size(); ++d)
        plain = te::matches(weights.store[d], index[d], at);
      for (VarId axis : weights.axes) {
        if (made.variable(axis).extent.is(1)) at.try_emplace(axis.index, Expr::index(0));
      }
      plain = plain && at.size() == weights.axes.size();
      if (!plain) continue;
      Expr divisor = te::substituted(quotient->operands[1], at);
      if (guards) divisor = te::divisor_of_guarded(divisor);
      std::set<VarId> used = te::variables_of(divisor);
      bool outside = std::none_of(sum.reduction.begin(), sum.reduction.end(),
                                  [&](VarId k) { return used.count(k) != 0; });
      if (!outside) continue;
      auto replaced = [](const Expr& expr, const Expr& part, const Expr& instead) {
        te::Rewriter rewriter([&](const Expr& one) { return te::same(one, part) ? instead : Expr(); });
        return rewriter(expr);
      };
      const Expr weight = te::substituted(replaced(weights.body, quotient, quotient->operands[0]), at);
      sum.body = replaced(factor, load, weight) * other;
      const Expr added = Expr::accumulator(sum.body.dtype());
      Expr divided = added / divisor;
      // No weights at all add up to 0, not to 0 / 0.
      for (VarId k : sum.reduction) {
        const Dim& count = made.variable(k).extent;
        if (!count.is_constant())
          divided =
              te::select(Expr::make(ExprOp::Equal, {Expr::size(count), Expr::index(0)}), added, divided);
      }
      te::Rewriter rewriter(
          [&](const Expr& expr) { return expr->op == ExprOp::Accumulator ? divided : Expr(); });
      sum.finish = sum.finish.defined() ? rewriter(sum.finish) : divided;
      made.buffers[weights.target.index].shape = {};  // nobody's any more
      made.stages.erase(made.stages.begin() + static_cast<std::ptrdiff_t>(s));
      --s;
      break;
    }
  }
  return made;
}

Formula pack_windows(const Formula& formula, const SymbolBindings& nominal) {
  Formula made = formula;
  for (std::size_t s = 0; s < made.stages.size(); ++s) {
    const Stage stage = made.stages[s];
    if (stage.kind != Stage::Kind::MapReduce || stage.reduction.empty() || te::work_of(stage.body) == 0)
      continue;
    auto packed = pack_operand(made, stage, stage.body, nominal, Packed::Windows);
    if (!packed) continue;
    made.stages[s].body = packed->instead;
    made.stages.insert(made.stages.begin() + static_cast<std::ptrdiff_t>(s), std::move(packed->stage));
    ++s;
  }
  return made;
}

Formula prepare_main_loop(const Formula& formula, const Schedule& schedule, const Target& target,
                          const SymbolBindings& nominal, bool turn_operands) {
  return Preparation(formula, schedule, target, nominal, turn_operands).run();
}

}  // namespace xyntra
