// Index arithmetic: what a position is made of, and how to undo it.
//
// An index is a sum of coefficient * atom, where an atom is a loop variable or something opaque (a value
// read from memory, a division that does not come out even):
//   (b * 12 + h) * 64 + d                     768 b + 64 h + d
//   (768 b + 64 h + d) floordiv 64 mod 12     h, since h < 12 and d < 64
// Loop variables run from 0 to their extent less one; a loop without an iteration makes any claim about it true.
#pragma once

#include <optional>

#include "te/walk.h"

namespace xyntra::te {

bool divides(const Dim& divisor, const Dim& x);  // whether that can be shown

struct LinearIndex {
  struct Term {
    Expr atom;
    Dim coefficient;
  };
  std::vector<Term> terms;  // atoms differ; in order of first appearance
  Dim constant = 0;

  const Term* find(VarId variable) const;
  bool is_constant() const { return terms.empty(); }
};

class IndexAlgebra {
 public:
  // Keeps a reference: the variables outlive the algebra.
  explicit IndexAlgebra(const std::vector<Variable>& variables) : variables_(variables) {}
  explicit IndexAlgebra(const Formula& formula) : IndexAlgebra(formula.variables) {}

  LinearIndex linear(const Expr& index) const;
  Expr expr(const LinearIndex& linear) const;
  Expr simplified(const Expr& index) const { return is_simple(index) ? index : expr(linear(index)); }

  // Whether low <= index < high at every iteration of the loops; false when that cannot be shown.
  bool within(const Expr& index, const Dim& low, const Dim& high) const;

  struct Bounds {
    Dim low, high;  // both inclusive
  };
  std::optional<Bounds> range(const Expr& index) const;

 private:
  // What is said of a division holds where its divisor is not zero: that can be shown, or it is taken for granted, since nobody
  // divides by zero. The latter is enough to write an index in another way, not to call an access safe.
  enum class Divisors : std::uint8_t { Shown, Granted };
  std::optional<Bounds> bounds(const LinearIndex& linear, Divisors divisors) const;
  std::optional<Bounds> bounds_of_atom(const Expr& atom, Divisors divisors) const;
  std::optional<Bounds> bounds_anew(const Expr& atom, Divisors divisors) const;
  LinearIndex linear_anew(const Expr& index) const;
  struct Split {
    LinearIndex quotient, remainder;
  };
  std::optional<Split> divide(const LinearIndex& dividend, const Dim& divisor) const;
  LinearIndex quotient(LinearIndex dividend, const Dim& divisor) const;
  LinearIndex remainder(LinearIndex dividend, const Dim& divisor) const;
  LinearIndex rejoined(LinearIndex sum) const;

  // A loop by itself, as most indices are.
  bool is_simple(const Expr& index) const { return index->op == ExprOp::Var && !extent(index->var).is(1); }
  const Dim& extent(VarId variable) const { return variables_.at(variable.index).extent; }

  // What is shared in a long index is looked at once, and what is made of it stays shared. Kept during one question: variables
  // may be others at the next.
  struct Known {
    Expr index;  // so that its address stays that of a living node
    LinearIndex linear;
  };
  struct Question;
  bool is_long() const;
  Expr interned(Expr made) const;

  const std::vector<Variable>& variables_;
  mutable std::unordered_map<const ExprNode*, Known> known_;
  mutable std::map<std::pair<const ExprNode*, Divisors>, std::pair<Expr, std::optional<Bounds>>>
      bounds_;  // of atoms
  mutable std::unordered_multimap<std::size_t, Expr> interned_;  // by hash
  mutable int depth_ = 0, steps_ = 0;
};

// Positions of a buffer as mixed-radix numbers over axes: dimension d is
//   offset + a0 * stride0 + a1 * stride1 + …   with stride0 = 1, stride1 = stride0 * extent of a0, …
// Every axis stands in one dimension, so a position tells the axes.
class PositionMap {
 public:
  // Nothing when an index is of another form, or an axis with more than one iteration is missing.
  static std::optional<PositionMap> of(const Formula& formula, const std::vector<Expr>& index,
                                       const std::vector<VarId>& axes);

  // The axes at a position.
  Substitution axes_at(const std::vector<Expr>& position) const;
  const Dim& offset(std::size_t dimension) const { return dimensions_[dimension].offset; }
  const Dim& extent(std::size_t dimension) const { return dimensions_[dimension].extent; }
  bool covers(const Shape& shape) const;  // every position of a buffer of this shape

 private:
  struct Digit {
    VarId axis;
    Dim stride, extent;
  };
  struct Dimension {
    std::vector<Digit> digits;  // innermost first
    Dim offset = 0, extent = 1;
  };
  std::vector<Dimension> dimensions_;
  std::vector<VarId> single_;  // axes of extent 1 that stand nowhere
};

}  // namespace xyntra::te
