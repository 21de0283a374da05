// Proves that indices stay within buffers, from the extents of loops and from facts known where they stand.
//
// A fact is a sum of coefficient * atom that is 0 or more (te/index/index.h has the sums). To show a goal of the same form,
// its atoms are replaced one after another by what bounds them from the harmless side, until a size is left:
//
//   grid i < ceil(N/16), vector l < 16, if i*16 + l < N      fact   N - 1 - 16 i - l >= 0
//   y[i*16 + l] is below N                                   goal   N - 1 - 16 i - l >= 0: the fact itself
//   y[min(i*16 + l, N - 1)]                                  goal   N - 1 - min(…) >= 0: the second operand will do
//
// A loop's variable is at least 0 and at most its extent less one; inside a loop its extent is at least 1.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "te/index/index.h"

namespace xyntra::kir {

class BoundsProver {
 public:
  explicit BoundsProver(const std::vector<te::Variable>& variables);
  ~BoundsProver();

  // Facts form a stack: release(mark()) takes back what was assumed in between.
  std::size_t mark() const { return facts_.size(); }
  void release(std::size_t mark) { facts_.resize(mark); }

  void assume(const te::Expr& condition, bool holds = true);
  void assume_within(const te::Expr& index, const Dim& extent);
  void assume_inside_loop(const Dim& extent);  // inside a loop of that extent

  // The buffer was written: what was known about values read from it no longer holds.
  void forget(te::BufferId buffer);

  bool never_negative(const te::Expr& number);
  bool within(const te::Expr& index, const Dim& extent);  // 0 <= index < extent
  bool holds(const te::Expr& comparison, bool wanted);  // whether a comparison is known to be true, or false

 private:
  struct Fact {
    te::LinearIndex sum;  // >= 0
    std::vector<te::BufferId> loads;
    bool holds = true;
  };
  using Goal = te::LinearIndex;

  te::LinearIndex linear(const te::Expr& number);
  void add_fact(te::LinearIndex sum);
  std::vector<te::LinearIndex> divided(const te::LinearIndex& fact);
  std::optional<te::LinearIndex> divided(const te::LinearIndex& fact, std::int64_t by);
  bool is_never_negative(const te::Expr& atom);
  std::vector<te::LinearIndex> sums_of(const te::Expr& comparison, bool holds);
  bool unreachable() const;
  bool is_known(const Goal& goal);
  bool by_one_fact(const Goal& goal) const;
  std::optional<Dim> least_of(const Goal& goal) const;
  bool shown(const Goal& goal);
  bool prove(const Goal& goal, int depth);
  SymbolRanges ranges_of_symbols() const;
  bool prove_size(const Dim& size, int depth);
  bool eliminate(const Goal& goal, std::size_t term, int depth);
  bool by_facts(const Goal& goal, std::size_t term, int depth);
  bool by_structure(const Goal& goal, std::size_t term, int depth);
  bool with_bound(const Goal& goal, std::size_t term, const te::LinearIndex& bound, int depth);
  std::vector<Dim> most_by_facts(const te::LinearIndex& sum) const;
  Dim least_quotient(const te::Expr& atom, const Dim& by_loops);
  bool by_division(const Goal& goal, std::size_t term, int depth);

  const std::vector<te::Variable>& variables_;
  te::IndexAlgebra algebra_;
  te::Rewriter canonical_;
  std::vector<Fact> facts_;
  int steps_left_ = 0;  // bounds the search for one goal
};

}  // namespace xyntra::kir
