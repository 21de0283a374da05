#include "te/index/digits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "te/index/index.h"
#include "te/walk.h"

namespace xyntra::te {
namespace {

// A dimension that every access walks by two loops, as digits of its place: i * 97 + j for j < 97.
class DigitSplitter {
 public:
  explicit DigitSplitter(const Formula& formula) : formula_(formula) {}

  // As two dimensions, one loop for each; nothing where there is none.
  std::optional<Formula> run() {
    for (const Stage& stage : formula_.stages) {
      look_at(stage.target, stage.store);
      for_each_node(stage, [&](const ExprNode& node) {
        if (is_load(node)) look_at(node.buffer, index_of(node));
      });
    }
    std::erase_if(sizes_, [](const auto& entry) { return !entry.second; });
    if (sizes_.empty()) return std::nullopt;
    Formula split = formula_;
    Rewriter rewriter([&](const Expr& expr) {
      if (!is_load(*expr)) return Expr();
      const std::size_t first = expr->op == ExprOp::LoadOr ? 1 : 0;
      return with_operands(expr, longer(expr->buffer, expr->operands, first));
    });
    for (Stage& stage : split.stages) {
      rewriter(stage);
      stage.store = longer(stage.target, stage.store, 0);
    }
    for (const auto& [place, sizes] : std::views::reverse(sizes_)) {
      Shape& shape = split.buffers[place.first].shape;
      const auto at = shape.begin() + static_cast<std::ptrdiff_t>(place.second);
      *at = sizes->second;
      shape.insert(at, sizes->first);
    }
    return split;
  }

 private:
  struct Digits {
    VarId outer, inner;
  };
  std::optional<Digits> digits_of(const Expr& index, const Dim& size) const {
    if (index->op == ExprOp::Var) return std::nullopt;
    const LinearIndex found = IndexAlgebra(formula_).linear(index);
    if (found.terms.size() != 2 || !found.constant.is(0)) return std::nullopt;
    for (const std::size_t inner : {0U, 1U}) {
      const LinearIndex::Term &low = found.terms[inner], &high = found.terms[1 - inner];
      if (low.atom->op != ExprOp::Var || high.atom->op != ExprOp::Var || !low.coefficient.is(1)) continue;
      const Dim &few = formula_.variable(low.atom->var).extent,
                &many = formula_.variable(high.atom->var).extent;
      if (size.is_constant() && high.coefficient == few && few * many == size)
        return Digits{high.atom->var, low.atom->var};
    }
    return std::nullopt;
  }

  // Where an index is data, dimensions keep their numbers.
  void look_at(BufferId buffer, const std::vector<Expr>& index) {
    const bool by_data = std::ranges::any_of(index, [](const Expr& one) { return reads_data(one); });
    for (std::size_t d = 0; d < index.size(); ++d) {
      const auto digits = by_data ? std::nullopt : digits_of(index[d], formula_.buffer(buffer).shape[d]);
      std::optional<std::pair<Dim, Dim>> sizes;
      if (digits) sizes = {formula_.variable(digits->outer).extent, formula_.variable(digits->inner).extent};
      const auto [entry, fresh] = sizes_.try_emplace({buffer.index, d}, sizes);
      if (!fresh && entry->second != sizes) entry->second = std::nullopt;
    }
  }

  std::vector<Expr> longer(BufferId buffer, const std::vector<Expr>& index, std::size_t first) const {
    std::vector<Expr> made(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(first));
    for (std::size_t d = 0; first + d < index.size(); ++d) {
      const Expr& one = index[first + d];
      if (!sizes_.contains({buffer.index, d})) {
        made.push_back(one);
        continue;
      }
      const Digits digits = *digits_of(one, formula_.buffer(buffer).shape[d]);
      made.push_back(Expr::variable(digits.outer));
      made.push_back(Expr::variable(digits.inner));
    }
    return made;
  }

  const Formula& formula_;
  // Of both digits, by buffer and dimension.
  std::map<std::pair<std::uint32_t, std::size_t>, std::optional<std::pair<Dim, Dim>>> sizes_;
};

// The opposite: two dimensions whose places are digits of one number.
class DimensionJoiner {
 public:
  explicit DimensionJoiner(Formula& formula) : formula_(formula) {}

  bool run() {
    for (const Stage& stage : formula_.stages) {
      look_at(stage.target, stage.store, false);
      for_each_node(stage, [&](const ExprNode& node) {
        if (is_load(node)) look_at(node.buffer, index_of(node), node.op == ExprOp::LoadOr);
      });
    }
    std::map<std::uint32_t, std::size_t>
        joined;  // one dimension of a buffer at a time: the caller comes again
    for (const auto& [place, pair] : pairs_) {
      if (pair.digits && !pair.spoiled) joined.emplace(place);
    }
    if (joined.empty()) return false;
    auto shorter = [&](BufferId buffer, std::vector<Expr> index, std::size_t first) {
      const std::size_t d = joined.at(buffer.index);
      const auto at = index.begin() + static_cast<std::ptrdiff_t>(first + d);
      *at = number_of(buffer, d, *at, *(at + 1));
      index.erase(at + 1);
      return index;
    };
    Rewriter rewriter([&](const Expr& expr) {
      if (!is_load(*expr) || !joined.contains(expr->buffer.index)) return Expr();
      return with_operands(expr, shorter(expr->buffer, expr->operands, expr->op == ExprOp::LoadOr ? 1 : 0));
    });
    for (Stage& stage : formula_.stages) {
      rewriter(stage);
      if (joined.contains(stage.target.index)) stage.store = shorter(stage.target, stage.store, 0);
    }
    for (const auto& [buffer, d] : joined) {
      Shape& shape = formula_.buffers[buffer].shape;
      const auto at = shape.begin() + static_cast<std::ptrdiff_t>(d);
      *at = *at * *(at + 1);
      shape.erase(at + 1);
    }
    return true;
  }

 private:
  struct Pair {
    bool digits = false, spoiled = false;
  };

  // Outside a buffer is where one of two places is: only for digits is that where the number is.
  enum class Joined : std::uint8_t { Never, AsDigits, AsSum };
  Joined joined_as(BufferId buffer, std::size_t d, const Expr& high, const Expr& low, bool guarded) const {
    const Shape& shape = formula_.buffer(buffer).shape;
    if (!shape[d].is_constant() || !shape[d + 1].is_constant())
      return Joined::Never;  // bounds could not be shown any more
    if (digits_number(shape[d], shape[d + 1], high, low).defined()) return Joined::AsDigits;
    return guarded ? Joined::Never : Joined::AsSum;
  }

  // The number that two places are digits of, or one made of them.
  Expr number_of(BufferId buffer, std::size_t d, const Expr& high, const Expr& low) const {
    const Dim &many = formula_.buffer(buffer).shape[d], &few = formula_.buffer(buffer).shape[d + 1];
    if (Expr number = digits_number(many, few, high, low); number.defined()) return number;
    return IndexAlgebra(formula_).simplified(high * Expr::size(few) + low);
  }

  static Expr digits_number(const Dim& many, const Dim& few, const Expr& high, const Expr& low) {
    auto divides = [&](const Expr& quotient, ExprOp op, const Dim& by) {
      return quotient->op == op && is_size(quotient->operands[1], by);
    };
    if (!divides(low, ExprOp::Mod, few)) return {};
    const Expr& number = low->operands[0];
    if (divides(high, ExprOp::FloorDiv, few) && same(high->operands[0], number)) return number;
    const bool middle = divides(high, ExprOp::Mod, many) &&
                        divides(high->operands[0], ExprOp::FloorDiv, few) &&
                        same(high->operands[0]->operands[0], number);
    return middle ? mod(number, Expr::size(many * few)) : Expr();
  }
  static bool is_size(const Expr& expr, const Dim& size) {
    return (expr->op == ExprOp::Const && size.is(expr->int_value)) ||
           (expr->op == ExprOp::Size && expr->size == size);
  }

  // Where an index is data, dimensions keep their numbers.
  void look_at(BufferId buffer, const std::vector<Expr>& index, bool guarded) {
    const bool by_data = std::ranges::any_of(index, [](const Expr& one) { return reads_data(one); });
    for (std::size_t d = 0; d + 1 < index.size(); ++d) {
      const Joined as = joined_as(buffer, d, index[d], index[d + 1], guarded);
      Pair& pair = pairs_[{buffer.index, d}];
      pair.digits = pair.digits || as == Joined::AsDigits;
      pair.spoiled = pair.spoiled || by_data || as == Joined::Never;
    }
  }

  Formula& formula_;
  std::map<std::pair<std::uint32_t, std::size_t>, Pair> pairs_;  // by buffer and outer dimension
};

// Neighbouring loops of an element-wise stage that every access walks as one in memory, whatever its dimensions are.
class LoopJoiner {
 public:
  LoopJoiner(Formula& formula, Stage& stage, std::int64_t lanes)
      : formula_(formula), stage_(stage), lanes_(lanes) {}

  void run() {
    if (stage_.kind != Stage::Kind::MapReduce || !stage_.reduction.empty() || stage_.axes.empty()) return;
    for (std::size_t k = stage_.axes.size() - 1; k > 0; --k) {
      if (is_one(stage_.axes[k - 1], stage_.axes[k])) join(k);
    }
  }

 private:
  // Loads' indices are looked at as a whole; beside them no loop may be named that is not in whole rounds in every vector.
  bool is_one(VarId outer, VarId inner) const {
    const Dim& size = formula_.variable(inner).extent;
    if (!size.is_constant() || size.constant() < 2) return false;  // nothing is divided by no elements
    if (!walks_as_one(stage_.target, stage_.store, outer, inner)) return false;
    Visited seen;
    std::vector<const ExprNode*> waiting{stage_.body.address()};
    if (stage_.finish.defined()) waiting.push_back(stage_.finish.address());
    if (stage_.guard.defined()) waiting.push_back(stage_.guard.address());
    while (!waiting.empty()) {
      const ExprNode* expr = waiting.back();
      waiting.pop_back();
      if (!seen.insert(expr)) continue;
      if (expr->op == ExprOp::Var && (expr->var == outer || expr->var == inner) && !in_whole_rounds(inner))
        return false;
      if (expr->op == ExprOp::LoadOr && names(*expr, outer, inner)) return false;
      if (expr->op == ExprOp::Load) {
        if (reads_data_to_find(*expr)) return false;
        if (!walks_as_one(expr->buffer, expr->operands, outer, inner) &&
            !repeats_in_lanes(expr->buffer, expr->operands, outer, inner))
          return false;
        continue;
      }
      for (const Expr& operand : expr->operands) waiting.push_back(operand.address());
    }
    return true;
  }

  static bool names(const ExprNode& load, VarId outer, VarId inner) {
    return std::ranges::any_of(index_of(load), [&](const Expr& index) {
      const std::set<VarId> used = variables_of(index);
      return used.contains(outer) || used.contains(inner);
    });
  }

  // Whether vectors hold whole rounds of a loop: what counts its turns has the same numbers in each of them, then.
  bool in_whole_rounds(VarId inner) const {
    const std::int64_t turns = formula_.variable(inner).extent.constant();
    return turns < lanes_ && lanes_ % turns == 0;
  }

  static bool reads_data_to_find(const ExprNode& load) {
    return std::ranges::any_of(load.operands, [](const Expr& index) { return reads_data(index); });
  }

  LinearIndex position(BufferId buffer, const std::vector<Expr>& index) const {
    const Shape& shape = formula_.buffer(buffer).shape;
    Expr sum = Expr::index(0);
    for (std::size_t d = 0; d < index.size(); ++d) sum = sum * Expr::size(shape[d]) + index[d];
    return IndexAlgebra(formula_).linear(sum);
  }

  // Whether an access reads neighbours along one of the loops alone, and vectors of both hold whole rounds of the inner one.
  bool repeats_in_lanes(BufferId buffer, const std::vector<Expr>& index, VarId outer, VarId inner) const {
    const Dim& size = formula_.variable(inner).extent;
    auto fits = [&](const Dim& period) {
      return period.is_constant() && period.constant() > 1 && lanes_ % period.constant() == 0;
    };
    std::size_t steps = 0;
    for (const LinearIndex::Term& term : position(buffer, index).terms) {
      const std::set<VarId> used = variables_of(term.atom);
      if (!used.contains(outer) && !used.contains(inner)) continue;
      const bool digit = term.atom->op == ExprOp::Mod && term.atom->operands[0]->op == ExprOp::Var &&
                         term.atom->operands[0]->var == inner && term.atom->operands[1]->op == ExprOp::Const;
      const Dim period = digit ? Dim(term.atom->operands[1]->int_value) : size;
      const bool whole = digit ? divides(period, size) : term.atom->op == ExprOp::Var;
      if (!whole || !fits(period) || !term.coefficient.is(1)) return false;
      ++steps;
    }
    return steps <= 1;
  }

  bool walks_as_one(BufferId buffer, const std::vector<Expr>& index, VarId outer, VarId inner) const {
    Dim steps[] = {0, 0};
    for (const LinearIndex::Term& term : position(buffer, index).terms) {
      const std::set<VarId> used = variables_of(term.atom);
      if (!used.contains(outer) && !used.contains(inner)) continue;
      if (term.atom->op != ExprOp::Var) return false;
      steps[term.atom->var == outer ? 0 : 1] = term.coefficient;
    }
    return steps[0] == steps[1] * formula_.variable(inner).extent;
  }

  void join(std::size_t k) {
    const VarId outer = stage_.axes[k - 1], inner = stage_.axes[k], all(formula_.variables.size());
    const Dim size = formula_.variable(inner).extent;
    formula_.variables.push_back({formula_.variable(inner).name, formula_.variable(outer).extent * size});
    Substitution digits;
    digits[outer.index] = floor_div(Expr::variable(all), Expr::size(size));
    digits[inner.index] = mod(Expr::variable(all), Expr::size(size));
    Rewriter simple([&](const Expr& expr) {
      if (expr->op != ExprOp::Load) return Expr();
      std::vector<Expr> index = expr->operands;
      for (Expr& one : index) one = IndexAlgebra(formula_).simplified(one);
      return with_operands(expr, std::move(index));
    });
    for (Expr* expr : {&stage_.body, &stage_.finish, &stage_.guard}) {
      if (expr->defined()) *expr = simple(substituted(*expr, digits));
    }
    for (Expr& index : stage_.store) index = IndexAlgebra(formula_).simplified(substituted(index, digits));
    stage_.axes.erase(stage_.axes.begin() + static_cast<std::ptrdiff_t>(k));
    stage_.axes[k - 1] = all;
  }

  Formula& formula_;
  Stage& stage_;
  const std::int64_t lanes_;
};

}  // namespace

std::optional<Formula> with_split_dimensions(const Formula& formula) { return DigitSplitter(formula).run(); }

void join_dimensions(Formula& formula) {
  while (DimensionJoiner(formula).run()) {
  }
}

void join_loops(Formula& formula, std::int64_t lanes) {
  for (Stage& stage : formula.stages) LoopJoiner(formula, stage, lanes).run();
}

}  // namespace xyntra::te
