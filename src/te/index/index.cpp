#include "te/index/index.h"

#include <algorithm>
#include <numeric>

namespace xyntra::te {
namespace {

void add_term(LinearIndex& sum, const Expr& atom, const Dim& coefficient) {
  auto found = std::find_if(sum.terms.begin(), sum.terms.end(),
                            [&](const LinearIndex::Term& term) { return same(term.atom, atom); });
  if (found == sum.terms.end()) {
    if (!coefficient.is(0)) sum.terms.push_back({atom, coefficient});
    return;
  }
  found->coefficient = found->coefficient + coefficient;
  if (found->coefficient.is(0)) sum.terms.erase(found);
}

LinearIndex plus(LinearIndex a, const LinearIndex& b, const Dim& scale) {
  for (const auto& term : b.terms) add_term(a, term.atom, term.coefficient * scale);
  a.constant = a.constant + b.constant * scale;
  return a;
}

LinearIndex times(const LinearIndex& a, const Dim& factor) { return plus({}, a, factor); }

bool at_least(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return a.constant() >= b.constant();
  return (a - b).range({}).low >= 0;
}

bool same_leaf(const Expr& a, const Expr& b) { return a->operands.empty() && same(a, b); }

}  // namespace

bool divides(const Dim& divisor, const Dim& x) {
  if (divisor.is(1)) return true;
  if (divisor.is_constant() && x.is_constant() && divisor.constant() > 0)
    return x.constant() % divisor.constant() == 0;
  return floor_div(x, divisor) * divisor == x;
}

const LinearIndex::Term* LinearIndex::find(VarId variable) const {
  for (const Term& term : terms) {
    if (term.atom->op == ExprOp::Var && term.atom->var == variable) return &term;
  }
  return nullptr;
}

// Open while something is asked; what it learned is forgotten when the outermost one ends.
struct IndexAlgebra::Question {
  explicit Question(const IndexAlgebra& algebra) : algebra(algebra) { ++algebra.depth_; }
  ~Question() {
    if (--algebra.depth_ > 0) return;
    if (algebra.is_long()) {
      algebra.known_.clear();
      algebra.bounds_.clear();
      algebra.interned_.clear();
    }
    algebra.steps_ = 0;
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  const IndexAlgebra& algebra;
};

// Of a short index nothing is remembered.
bool IndexAlgebra::is_long() const {
  constexpr int kFewSteps = 64;
  return steps_ >= kFewSteps;
}

// The sum, product or quotient that was made before of the same operands.
Expr IndexAlgebra::interned(Expr made) const {
  const bool arithmetic = made->op == ExprOp::Add || made->op == ExprOp::Mul ||
                          made->op == ExprOp::FloorDiv || made->op == ExprOp::Mod;
  if (!is_long() || !arithmetic) return made;
  std::size_t hash = static_cast<std::size_t>(made->op);
  for (const Expr& operand : made->operands) {
    const bool leaf = operand->operands.empty();
    hash = hash * 31 + (leaf ? static_cast<std::size_t>(operand->int_value)
                             : std::hash<const void*>()(operand.address()));
  }
  const auto [first, last] = interned_.equal_range(hash);
  const auto known = std::find_if(first, last, [&](const auto& entry) {
    return entry.second->op == made->op &&
           std::ranges::equal(entry.second->operands, made->operands, [](const Expr& a, const Expr& b) {
             return a.address() == b.address() || same_leaf(a, b);
           });
  });
  if (known != last) return known->second;
  return interned_.emplace(hash, std::move(made))->second;
}

LinearIndex IndexAlgebra::linear(const Expr& index) const {
  if (index->operands.empty()) return linear_anew(index);
  const Question question(*this);
  ++steps_;
  if (!is_long()) return linear_anew(index);
  if (const auto known = known_.find(index.address()); known != known_.end()) return known->second.linear;
  LinearIndex found = linear_anew(index);
  known_.emplace(index.address(), Known{index, found});
  return found;
}

LinearIndex IndexAlgebra::linear_anew(const Expr& index) const {
  const ExprNode& node = *index;
  auto operand = [&](std::size_t i) { return linear(node.operands[i]); };
  switch (node.op) {
    case ExprOp::Const: return {{}, node.int_value};
    case ExprOp::Size: return {{}, node.size};
    case ExprOp::Var:
      if (extent(node.var).is(1)) return {{}, 0};
      return {{{index, 1}}, 0};
    case ExprOp::Neg: return times(operand(0), -1);
    case ExprOp::Add: return rejoined(plus(operand(0), operand(1), 1));
    case ExprOp::Sub: return rejoined(plus(operand(0), operand(1), -1));
    case ExprOp::Mul: {
      LinearIndex a = operand(0), b = operand(1);
      if (a.is_constant()) return times(b, a.constant);
      if (b.is_constant()) return times(a, b.constant);
      return {{{interned(expr(a) * expr(b)), 1}}, 0};
    }
    case ExprOp::FloorDiv:
    case ExprOp::Mod: {
      LinearIndex a = operand(0), b = operand(1);
      bool known = b.is_constant() && (!b.constant.is_constant() || b.constant.constant() > 0);
      if (!known) return {{{interned(with_operands(index, {expr(a), expr(b)})), 1}}, 0};
      return node.op == ExprOp::FloorDiv ? quotient(std::move(a), b.constant)
                                         : remainder(std::move(a), b.constant);
    }
    default: return {{{index, 1}}, 0};
  }
}

Expr IndexAlgebra::expr(const LinearIndex& linear) const {
  Expr sum;
  for (const auto& term : linear.terms) {
    Expr part = interned(term.coefficient.is(1) ? term.atom : term.atom * Expr::size(term.coefficient));
    sum = sum.defined() ? interned(sum + part) : part;
  }
  if (!sum.defined()) return Expr::size(linear.constant);
  return linear.constant.is(0) ? sum : interned(sum + Expr::size(linear.constant));
}

std::optional<IndexAlgebra::Bounds> IndexAlgebra::bounds_of_atom(const Expr& atom, Divisors divisors) const {
  if (atom->op == ExprOp::Var) return Bounds{0, extent(atom->var) - 1};
  if (atom->op != ExprOp::FloorDiv && atom->op != ExprOp::Mod && atom->op != ExprOp::Select)
    return std::nullopt;
  if (!is_long()) return bounds_anew(atom, divisors);
  const std::pair key(atom.address(), divisors);
  if (const auto known = bounds_.find(key); known != bounds_.end()) return known->second.second;
  std::optional<Bounds> found = bounds_anew(atom, divisors);
  bounds_.emplace(key, std::pair(atom, found));
  return found;
}

std::optional<IndexAlgebra::Bounds> IndexAlgebra::bounds_anew(const Expr& atom, Divisors divisors) const {
  if (atom->op == ExprOp::Select) {
    const auto one = bounds(linear(atom->operands[1]), divisors),
               other = bounds(linear(atom->operands[2]), divisors);
    if (!one || !other) return std::nullopt;
    const bool low = at_least(one->low, other->low), high = at_least(one->high, other->high);
    if ((!low && !at_least(other->low, one->low)) || (!high && !at_least(other->high, one->high)))
      return std::nullopt;
    return Bounds{low ? other->low : one->low, high ? one->high : other->high};
  }
  const LinearIndex by = linear(atom->operands[1]);
  const Dim& divisor = by.constant;
  if (!by.is_constant() || !at_least(divisor, divisors == Divisors::Shown ? 1 : 0)) return std::nullopt;
  if (atom->op == ExprOp::Mod) return Bounds{0, divisor - 1};
  auto inner = bounds(linear(atom->operands[0]), divisors);
  if (!inner) return std::nullopt;
  const Dim end = inner->high + 1;  // 6 n - 1 floordiv 6 is n - 1
  return Bounds{floor_div(inner->low, divisor),
                divides(divisor, end) ? floor_div(end, divisor) - 1 : floor_div(inner->high, divisor)};
}

std::optional<IndexAlgebra::Bounds> IndexAlgebra::bounds(const LinearIndex& linear, Divisors divisors) const {
  Bounds sum{linear.constant, linear.constant};
  for (const auto& term : linear.terms) {
    auto atom = bounds_of_atom(term.atom, divisors);
    if (!atom) return std::nullopt;
    bool positive = at_least(term.coefficient, 0), negative = at_least(0, term.coefficient);
    if (!positive && !negative) return std::nullopt;
    sum.low = sum.low + term.coefficient * (positive ? atom->low : atom->high);
    sum.high = sum.high + term.coefficient * (positive ? atom->high : atom->low);
  }
  return sum;
}

std::optional<IndexAlgebra::Bounds> IndexAlgebra::range(const Expr& index) const {
  const Question question(*this);
  return bounds(linear(index), Divisors::Shown);
}

bool IndexAlgebra::within(const Expr& index, const Dim& low, const Dim& high) const {
  auto range = this->range(index);
  return range && at_least(range->low, low) && at_least(high - 1, range->high);
}

// dividend = quotient * divisor + remainder with 0 <= remainder < divisor, where that can be shown.
std::optional<IndexAlgebra::Split> IndexAlgebra::divide(const LinearIndex& dividend,
                                                        const Dim& divisor) const {
  Split split;
  for (const auto& term : dividend.terms) {
    if (divides(divisor, term.coefficient)) {
      split.quotient.terms.push_back({term.atom, floor_div(term.coefficient, divisor)});
    } else {
      split.remainder.terms.push_back(term);
    }
  }
  Dim whole = dividend.constant.is_constant() || divides(divisor, dividend.constant)
                  ? floor_div(dividend.constant, divisor)
                  : Dim(0);
  split.quotient.constant = whole;
  split.remainder.constant = dividend.constant - whole * divisor;
  auto range = bounds(split.remainder, Divisors::Granted);
  if (!range || !at_least(range->low, 0) || !at_least(divisor - 1, range->high)) return std::nullopt;
  return split;
}

LinearIndex IndexAlgebra::quotient(LinearIndex dividend, const Dim& divisor) const {
  if (divisor.is(1)) return dividend;
  if (auto split = divide(dividend, divisor)) return split->quotient;
  for (const auto& term : dividend.terms) {  // (6 a + r) floordiv 12 = a floordiv 2 when r < 6
    const Dim& step = term.coefficient;
    if (step.is(1) || !at_least(step, 1) || !divides(step, divisor)) continue;
    if (auto split = divide(dividend, step)) return quotient(split->quotient, floor_div(divisor, step));
  }
  LinearIndex whole, rest{{}, dividend.constant};  // (6 a + r + 12) floordiv 6 = a + 2 + r floordiv 6
  if (divides(divisor, dividend.constant)) std::swap(whole.constant, rest.constant);
  if (!whole.constant.is(0)) whole.constant = floor_div(whole.constant, divisor);
  for (const auto& term : dividend.terms) {
    const bool even = divides(divisor, term.coefficient);
    if (even) whole.terms.push_back({term.atom, floor_div(term.coefficient, divisor)});
    if (!even) rest.terms.push_back(term);
  }
  if (!whole.terms.empty() || !whole.constant.is(0)) return plus(whole, quotient(std::move(rest), divisor), 1);
  if (dividend.terms.size() == 1 && dividend.constant.is(0) && dividend.terms[0].coefficient.is(1)) {
    const Expr& atom = dividend.terms[0].atom;
    if (atom->op == ExprOp::FloorDiv) {
      LinearIndex inner = linear(atom->operands[1]);
      if (inner.is_constant()) return quotient(linear(atom->operands[0]), inner.constant * divisor);
    }
  }
  return {{{interned(floor_div(expr(dividend), Expr::size(divisor))), 1}}, 0};
}

LinearIndex IndexAlgebra::remainder(LinearIndex dividend, const Dim& divisor) const {
  if (divisor.is(1)) return {{}, 0};
  if (auto split = divide(dividend, divisor)) return split->remainder;
  std::erase_if(dividend.terms, [&](const auto& term) { return divides(divisor, term.coefficient); });
  if (divides(divisor, dividend.constant)) dividend.constant = 0;
  for (const auto& term : dividend.terms) {  // (6 a + r) mod 12 = 6 (a mod 2) + r when r < 6
    const Dim& step = term.coefficient;
    if (step.is(1) || !at_least(step, 1) || !divides(step, divisor)) continue;
    if (auto split = divide(dividend, step)) {
      return plus(split->remainder, remainder(split->quotient, floor_div(divisor, step)), step);
    }
  }
  return {{{interned(mod(expr(dividend), Expr::size(divisor))), 1}}, 0};
}

// x floordiv 36 * 6 + x floordiv 6 mod 6 is x floordiv 6: a number that was taken apart and put together again.
LinearIndex IndexAlgebra::rejoined(LinearIndex sum) const {
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    const Expr digit = sum.terms[i].atom;
    if (digit->op != ExprOp::Mod) continue;
    LinearIndex divisor = linear(digit->operands[1]);
    if (!divisor.is_constant() || !at_least(divisor.constant, 1)) continue;
    LinearIndex whole = linear(digit->operands[0]), above = quotient(whole, divisor.constant);
    if (above.terms.size() != 1 || !above.constant.is(0) || !above.terms[0].coefficient.is(1)) continue;
    const Dim scale = sum.terms[i].coefficient;
    auto upper = std::find_if(sum.terms.begin(), sum.terms.end(), [&](const LinearIndex::Term& term) {
      return term.coefficient == scale * divisor.constant && same(term.atom, above.terms[0].atom);
    });
    if (upper == sum.terms.end()) continue;
    sum.terms.erase(upper);
    std::erase_if(sum.terms, [&](const LinearIndex::Term& term) { return same(term.atom, digit); });
    return rejoined(plus(std::move(sum), whole, scale));
  }
  return sum;
}

std::optional<PositionMap> PositionMap::of(const Formula& formula, const std::vector<Expr>& index,
                                           const std::vector<VarId>& axes) {
  IndexAlgebra algebra(formula);
  PositionMap map;
  std::set<VarId> left(axes.begin(), axes.end());
  for (const Expr& position : index) {
    LinearIndex linear = algebra.linear(position);
    Dimension dimension;
    dimension.offset = linear.constant;
    while (!linear.terms.empty()) {
      auto next = std::find_if(linear.terms.begin(), linear.terms.end(), [&](const LinearIndex::Term& term) {
        return term.atom->op == ExprOp::Var && term.coefficient == dimension.extent &&
               left.count(term.atom->var);
      });
      if (next == linear.terms.end()) return std::nullopt;
      VarId axis = next->atom->var;
      const Dim& extent = formula.variable(axis).extent;
      dimension.digits.push_back({axis, dimension.extent, extent});
      dimension.extent = dimension.extent * extent;
      left.erase(axis);
      linear.terms.erase(next);
    }
    map.dimensions_.push_back(std::move(dimension));
  }
  for (VarId axis : left) {
    if (!formula.variable(axis).extent.is(1)) return std::nullopt;
    map.single_.push_back(axis);
  }
  return map;
}

Substitution PositionMap::axes_at(const std::vector<Expr>& position) const {
  Substitution axes;
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    const Dimension& dimension = dimensions_[d];
    Expr from_start = position[d] - Expr::size(dimension.offset);
    for (std::size_t k = 0; k < dimension.digits.size(); ++k) {
      const Digit& digit = dimension.digits[k];
      Expr value = floor_div(from_start, Expr::size(digit.stride));
      bool outermost = k + 1 == dimension.digits.size();
      axes[digit.axis.index] = outermost ? value : mod(value, Expr::size(digit.extent));
    }
  }
  for (VarId axis : single_) axes[axis.index] = Expr::index(0);
  return axes;
}

bool PositionMap::covers(const Shape& shape) const {
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    if (!dimensions_[d].offset.is(0) || dimensions_[d].extent != shape[d]) return false;
  }
  return true;
}

}  // namespace xyntra::te
