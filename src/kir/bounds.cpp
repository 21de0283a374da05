#include "kir/bounds.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>

namespace xyntra::kir {

using te::BufferId;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::LinearIndex;

namespace {

constexpr int kDepth = 12;  // replacements in a row
constexpr int kSteps = 3000;  // replacements tried for one goal

LinearIndex plus(LinearIndex a, const LinearIndex& b, const Dim& scale) {
  for (const LinearIndex::Term& term : b.terms) {
    auto found = std::find_if(a.terms.begin(), a.terms.end(), [&](const LinearIndex::Term& other) {
      return te::same(other.atom, term.atom);
    });
    Dim coefficient = term.coefficient * scale;
    if (found == a.terms.end()) {
      if (!coefficient.is(0)) a.terms.push_back({term.atom, std::move(coefficient)});
      continue;
    }
    found->coefficient = found->coefficient + coefficient;
    if (found->coefficient.is(0)) a.terms.erase(found);
  }
  a.constant = a.constant + b.constant * scale;
  return a;
}

LinearIndex number(const Dim& value) { return {{}, value}; }

// 1, -1, or 0 when it is unknown.
int sign_of(const Dim& coefficient) {
  if (coefficient.never_negative()) return 1;
  return (Dim(0) - coefficient).never_negative() ? -1 : 0;
}

}  // namespace

// Index arithmetic inside a load, a minimum or a cast is brought into one form, so that facts and goals meet.
BoundsProver::BoundsProver(const std::vector<te::Variable>& variables)
    : variables_(variables), algebra_(variables), canonical_([this](const Expr& e) {
        bool arithmetic =
            e.dtype() == DType::I64 && !e->operands.empty() && te::kind_of(e->op) == te::ExprKind::Arithmetic;
        return arithmetic ? algebra_.simplified(e) : Expr();
      }) {}

BoundsProver::~BoundsProver() = default;

LinearIndex BoundsProver::linear(const Expr& number) { return algebra_.linear(canonical_(number)); }

// What a fact says of its terms that a number divides, the others being taken from it and not negative:
//   783 - 64 n - 4 x - v >= 0, so 783 - 64 n - 4 x >= 0, so 195 - 16 n - x >= 0
// Nothing where that is no more than the fact itself.
std::optional<LinearIndex> BoundsProver::divided(const LinearIndex& fact, std::int64_t by) {
  LinearIndex made{{}, floor_div(fact.constant, Dim(by))};
  for (const LinearIndex::Term& term : fact.terms) {
    const std::int64_t coefficient = term.coefficient.constant();
    if (coefficient % by == 0) {
      made.terms.push_back({term.atom, coefficient / by});
    } else if (coefficient > 0 || !is_never_negative(term.atom)) {
      return std::nullopt;
    }
  }
  const bool same = made.terms.size() == fact.terms.size() && made.constant * Dim(by) == fact.constant;
  return made.terms.empty() || same ? std::nullopt : std::optional(std::move(made));
}

bool BoundsProver::is_never_negative(const Expr& atom) {
  if (atom->op == ExprOp::Var) return true;
  const auto range = algebra_.range(atom);
  return range && range->low.never_negative();
}

// By each of the numbers that its terms are multiplied by, and by what divides all of these.
std::vector<LinearIndex> BoundsProver::divided(const LinearIndex& fact) {
  if (!fact.constant.is_constant()) return {};
  std::set<std::int64_t> sizes;
  std::int64_t common = 0;
  for (const LinearIndex::Term& term : fact.terms) {
    if (!term.coefficient.is_constant()) return {};
    const std::int64_t size = std::abs(term.coefficient.constant());
    if (size <= 1) continue;
    sizes.insert(size);
    common = std::gcd(common, size);
  }
  if (common > 1) sizes.insert(common);
  std::vector<LinearIndex> made;
  for (std::int64_t size : sizes) {
    if (std::optional<LinearIndex> one = divided(fact, size)) made.push_back(std::move(*one));
  }
  return made;
}

void BoundsProver::add_fact(LinearIndex sum) {
  Fact fact;
  for (const LinearIndex::Term& term : sum.terms) {
    te::for_each_node(term.atom, [&fact](const ExprNode& node) {
      if (te::is_load(node)) fact.loads.push_back(node.buffer);
    });
  }
  fact.sum = std::move(sum);
  for (LinearIndex& also : divided(fact.sum)) facts_.push_back({std::move(also), fact.loads});
  facts_.push_back(std::move(fact));
}

void BoundsProver::forget(BufferId buffer) {
  for (Fact& fact : facts_) {
    if (std::find(fact.loads.begin(), fact.loads.end(), buffer) != fact.loads.end()) fact.holds = false;
  }
}

// Sums of which all are 0 or more exactly when the comparison has this value; none where that takes an "or", or cannot
// be said by sums.
std::vector<LinearIndex> BoundsProver::sums_of(const Expr& comparison, bool holds) {
  const Expr &left = comparison->operands[0], &right = comparison->operands[1];
  if (!is_integer(left.dtype()) || left.dtype() == DType::U64) return {};
  // A narrower integer keeps its value when widened, so what is known of it is known of its index.
  auto widened = [](const Expr& e) {
    return e.is_constant() ? Expr::index(e->int_value) : te::cast(DType::I64, e);
  };
  LinearIndex difference = plus(linear(widened(right)), linear(widened(left)), -1);  // right - left
  auto at_least = [&](std::int64_t scale, std::int64_t offset) {
    LinearIndex sum = plus({}, difference, scale);
    sum.constant = sum.constant + Dim(offset);
    return sum;
  };
  switch (comparison->op) {
    case ExprOp::Less: return {holds ? at_least(1, -1) : at_least(-1, 0)};
    case ExprOp::LessEqual: return {holds ? at_least(1, 0) : at_least(-1, -1)};
    case ExprOp::Greater: return {holds ? at_least(-1, -1) : at_least(1, 0)};
    case ExprOp::GreaterEqual: return {holds ? at_least(-1, 0) : at_least(1, -1)};
    case ExprOp::Equal:
    case ExprOp::NotEqual:
      if (holds != (comparison->op == ExprOp::Equal)) return {};
      return {at_least(1, 0), at_least(-1, 0)};
    default: return {};
  }
}

bool BoundsProver::holds(const Expr& comparison, bool wanted) {
  std::vector<LinearIndex> sums = sums_of(comparison, wanted);
  return !sums.empty() && std::ranges::all_of(sums, [this](const LinearIndex& sum) { return shown(sum); });
}

void BoundsProver::assume(const Expr& condition, bool holds) {
  std::array<te::Visited, 2> seen;  // by whether it holds
  auto visit = [&](const Expr& part, bool part_holds, const auto& self) -> void {
    const ExprNode& node = *part;
    if (!seen[part_holds ? 1 : 0].insert(&node)) return;
    if (node.op == (part_holds ? ExprOp::And : ExprOp::Or)) {
      for (const Expr& operand : node.operands) self(operand, part_holds, self);
    } else if (node.op == ExprOp::Not) {
      self(node.operands[0], !part_holds, self);
    } else if (te::kind_of(node.op) == te::ExprKind::Compare) {
      for (LinearIndex& sum : sums_of(part, part_holds)) add_fact(std::move(sum));
    }
  };
  visit(condition, holds, visit);
}

void BoundsProver::assume_within(const Expr& index, const Dim& extent) {
  LinearIndex sum = linear(index);
  add_fact(plus(number(extent - 1), sum, -1));
  add_fact(std::move(sum));
}

void BoundsProver::assume_inside_loop(const Dim& extent) {
  if (!extent.is_constant()) add_fact(number(extent - 1));
}

// Facts that cannot be: nothing runs where they are said to hold, and anything may be claimed of it.
bool BoundsProver::unreachable() const {
  return std::any_of(facts_.begin(), facts_.end(), [](const Fact& fact) {
    bool constant = fact.holds && fact.sum.is_constant() && fact.sum.constant.is_constant();
    return constant && fact.sum.constant.constant() < 0;
  });
}

// A fact, or more than one: whatever the signs of its coefficients are.
bool BoundsProver::is_known(const Goal& goal) {
  return std::ranges::any_of(facts_, [&](const Fact& fact) {
    if (!fact.holds || fact.sum.terms.size() != goal.terms.size()) return false;
    const LinearIndex more = plus(goal, fact.sum, -1);
    return more.terms.empty() && more.constant.is_constant() && more.constant.constant() >= 0;
  });
}

bool BoundsProver::shown(const Goal& goal) {
  if (is_known(goal) || by_one_fact(goal)) return true;
  steps_left_ = kSteps;
  return prove(goal, kDepth);
}

bool BoundsProver::never_negative(const Expr& number) { return unreachable() || shown(linear(number)); }

bool BoundsProver::within(const Expr& index, const Dim& extent) {
  if (unreachable()) return true;
  const LinearIndex sum = linear(index);
  return shown(sum) && shown(plus(number(extent - 1), sum, -1));
}

// What facts say of one symbol by itself: n - 3 >= 0.
SymbolRanges BoundsProver::ranges_of_symbols() const {
  SymbolRanges ranges;
  for (const Fact& fact : facts_) {
    if (!fact.holds || !fact.sum.is_constant() || fact.sum.constant.is_constant()) continue;
    std::vector<std::string> symbols;
    fact.sum.constant.collect_symbols(symbols);
    if (symbols.size() != 1) continue;
    Dim rest = fact.sum.constant - Dim::symbol(symbols.front());
    if (!rest.is_constant()) continue;
    auto [known, fresh] = ranges.try_emplace(symbols.front());
    if (fresh) known->second.low = 0;
    known->second.low = std::max(known->second.low, -rest.constant());
  }
  return ranges;
}

// Facts about sizes alone hold beside the symbols' own ranges.
bool BoundsProver::prove_size(const Dim& size, int depth) {
  constexpr int kStepsEach = 8;  // sizes take longer than sums of loops
  if ((steps_left_ -= kStepsEach) < 0) return false;
  if (size.never_negative(depth == 0 ? ranges_of_symbols() : SymbolRanges())) return true;
  constexpr int kDeepest = 2;
  if (depth == kDeepest || size.is_constant()) return false;
  for (const Fact& fact : facts_) {
    if (!fact.holds || !fact.sum.is_constant() || fact.sum.constant.is_constant()) continue;
    // A multiple of what is 0 or more: strides of windows.
    const Dim times = depth == 0 ? floor_div(size, fact.sum.constant) : Dim(0);
    if (times.is_constant() && times.constant() > 1 && (size - fact.sum.constant * times).never_negative())
      return true;
    if (prove_size(size - fact.sum.constant, depth + 1)) return true;
  }
  return false;
}

// The least that the loops by themselves leave of a goal; nothing where it is not made of loops alone, or a sign is not known.
std::optional<Dim> BoundsProver::least_of(const Goal& goal) const {
  Dim least = goal.constant;
  for (const LinearIndex::Term& term : goal.terms) {
    const int sign = sign_of(term.coefficient);
    if (term.atom->op != ExprOp::Var || sign == 0) return std::nullopt;
    if (sign < 0) least = least + term.coefficient * (variables_.at(term.atom->var.index).extent - 1);
  }
  return least;
}

// What one fact and the loops show, whatever the other facts are: the mask of a vector in a row of a larger value.
bool BoundsProver::by_one_fact(const Goal& goal) const {
  return std::ranges::any_of(facts_, [&](const Fact& fact) {
    if (!fact.holds || fact.sum.terms.empty()) return false;
    const LinearIndex left = plus(goal, fact.sum, -1);
    if (left.terms.size() >= goal.terms.size()) return false;
    const std::optional<Dim> least = least_of(left);
    return least && least->never_negative();
  });
}

bool BoundsProver::prove(const Goal& goal, int depth) {
  if (goal.terms.empty()) return prove_size(goal.constant, 0);
  if (depth == 0 || --steps_left_ < 0) return false;
  // Atoms that are no loop variable first: what bounds them is said in terms of others.
  for (std::size_t i = 0; i < goal.terms.size(); ++i) {
    if (goal.terms[i].atom->op != ExprOp::Var) return eliminate(goal, i, depth);
  }
  const std::optional<Dim> least = least_of(goal);
  // Before facts are tried: where there are many, the search among them ends before it comes to this.
  if (least && least->never_negative()) return true;
  for (std::size_t i = 0; i < goal.terms.size(); ++i) {
    if (by_facts(goal, i, depth)) return true;
  }
  return least && prove_size(*least, 0);
}

bool BoundsProver::eliminate(const Goal& goal, std::size_t term, int depth) {
  return by_structure(goal, term, depth) || by_facts(goal, term, depth);
}

// goal = c*x + …, fact = d*x + … >= 0 with c and d of one sign: |d| * goal - |c| * fact has no x.
bool BoundsProver::by_facts(const Goal& goal, std::size_t term, int depth) {
  const Expr& atom = goal.terms[term].atom;
  const Dim wanted = goal.terms[term].coefficient;
  int sign = sign_of(wanted);
  if (sign == 0) return false;
  const std::size_t count = facts_.size();  // deeper proofs under a condition add facts and take them back
  for (std::size_t i = 0; i < count; ++i) {
    if (!facts_[i].holds) continue;
    const LinearIndex sum = facts_[i].sum;
    for (const LinearIndex::Term& given : sum.terms) {
      if (!te::same(given.atom, atom)) continue;
      if (sign_of(given.coefficient) != sign) break;
      LinearIndex left = given.coefficient == wanted
                             ? plus(goal, sum, -1)
                             : plus(plus({}, goal, given.coefficient * sign), sum, wanted * (-sign));
      facts_[i].holds = false;  // once in a row is enough
      bool proved = prove(left, depth - 1);
      facts_[i].holds = true;
      if (proved) return true;
      break;
    }
  }
  return false;
}

bool BoundsProver::with_bound(const Goal& goal, std::size_t term, const LinearIndex& bound, int depth) {
  LinearIndex left = goal;
  Dim coefficient = left.terms[term].coefficient;
  left.terms.erase(left.terms.begin() + static_cast<std::ptrdiff_t>(term));
  return prove(plus(std::move(left), bound, coefficient), depth - 1);
}

// What a sum is at most by one fact and the loops.
std::vector<Dim> BoundsProver::most_by_facts(const te::LinearIndex& sum) const {
  std::vector<Dim> found;
  for (const Fact& fact : facts_) {
    if (!fact.holds || fact.sum.terms.empty()) continue;
    const LinearIndex more = plus(sum, fact.sum, 1);
    if (more.terms.size() >= sum.terms.size()) continue;
    if (const std::optional<Dim> least = least_of(plus({}, more, -1))) found.push_back(Dim(0) - *least);
  }
  return found;
}

// The most that a quotient is by facts, where that is less than what loops by themselves leave of it: of bounds that are numbers the
// tightest shows whatever the others would.
Dim BoundsProver::least_quotient(const Expr& atom, const Dim& by_loops) {
  if (atom->op != ExprOp::FloorDiv || !by_loops.is_constant()) return by_loops;
  const LinearIndex divisor = linear(atom->operands[1]);
  if (!divisor.is_constant() || !divisor.constant.is_constant() || divisor.constant.constant() < 1)
    return by_loops;
  std::int64_t least = by_loops.constant();
  for (const Dim& most : most_by_facts(linear(atom->operands[0]))) {
    const Dim quotient = floor_div(most, divisor.constant);
    if (quotient.is_constant()) least = std::min(least, quotient.constant());
  }
  return least;
}

// e floordiv d = q:  e - d + 1 <= d*q <= e.   e mod d = r:  0 <= r < d, and r <= e where e >= 0.
// Truncating division is the same where e is not negative.
bool BoundsProver::by_division(const Goal& goal, std::size_t term, int depth) {
  const Expr atom = goal.terms[term].atom;
  const bool positive = sign_of(goal.terms[term].coefficient) > 0;
  LinearIndex divisor = linear(atom->operands[1]), dividend = linear(atom->operands[0]);
  if (!divisor.is_constant() || !prove_size(divisor.constant - 1, 0)) return false;
  bool truncates = atom->op == ExprOp::Div || atom->op == ExprOp::Rem;
  if (truncates && !prove(dividend, depth - 1)) return false;
  if (atom->op == ExprOp::Mod || atom->op == ExprOp::Rem) {
    if (positive) return with_bound(goal, term, number(0), depth);
    if (with_bound(goal, term, number(divisor.constant - 1), depth)) return true;
    return prove(dividend, depth - 1) && with_bound(goal, term, dividend, depth);
  }
  if (positive && prove(dividend, depth - 1) && with_bound(goal, term, number(0), depth)) return true;
  for (const Dim& most :
       positive ? std::vector<Dim>() : most_by_facts(dividend)) {  // rounded before it is multiplied
    if (with_bound(goal, term, number(floor_div(most, divisor.constant)), depth)) return true;
  }
  LinearIndex left = goal;
  Dim coefficient = left.terms[term].coefficient;
  left.terms.erase(left.terms.begin() + static_cast<std::ptrdiff_t>(term));
  left = plus({}, left, divisor.constant);
  left = plus(std::move(left), dividend, coefficient);
  if (positive) left.constant = left.constant - coefficient * (divisor.constant - 1);
  // The goal is an integer: d times it being more than -d is enough.
  left.constant = left.constant + divisor.constant - 1;
  return prove(left, depth - 1);
}

bool BoundsProver::by_structure(const Goal& goal, std::size_t term, int depth) {
  const Expr atom = goal.terms[term].atom;
  int sign = sign_of(goal.terms[term].coefficient);
  if (sign == 0) return false;
  if (auto range = algebra_.range(atom)) {
    const Dim bound = sign > 0 ? range->low : least_quotient(atom, range->high);
    if (with_bound(goal, term, number(bound), depth)) return true;
  }
  auto operand = [&](std::size_t i) { return with_bound(goal, term, linear(atom->operands[i]), depth); };
  switch (atom->op) {
    case ExprOp::Min: return sign > 0 ? operand(0) && operand(1) : operand(0) || operand(1);
    case ExprOp::Max: return sign > 0 ? operand(0) || operand(1) : operand(0) && operand(1);
    case ExprOp::Select: {
      auto branch = [&](std::size_t i) {
        std::size_t before = mark();
        assume(atom->operands[0], i == 1);
        bool proved = operand(i);
        release(before);
        return proved;
      };
      return branch(1) && branch(2);
    }
    case ExprOp::FloorDiv:
    case ExprOp::Mod:
    case ExprOp::Div:
    case ExprOp::Rem: return by_division(goal, term, depth);
    case ExprOp::Mul:  // of two numbers that are not negative
      if (sign < 0) return false;
      return prove(linear(atom->operands[0]), depth - 1) && prove(linear(atom->operands[1]), depth - 1) &&
             with_bound(goal, term, number(0), depth);
    case ExprOp::And: {
      for (const Expr& mask : atom->operands) {
        if (mask->op != ExprOp::Const || mask->int_value < 0) continue;
        if (with_bound(goal, term, number(sign > 0 ? Dim(0) : Dim(mask->int_value)), depth)) return true;
      }
      return false;
    }
    case ExprOp::Cast: {
      DType from = atom->operands[0].dtype();
      if (is_float(from) || from == DType::I64 || from == DType::U64) return false;
      Dim bound =
          sign > 0 ? Dim(lowest_integer(from)) : Dim(static_cast<std::int64_t>(highest_integer(from)));
      return with_bound(goal, term, number(bound), depth);
    }
    default: return false;
  }
}

}  // namespace xyntra::kir
