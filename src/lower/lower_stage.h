// One stage of a formula as loops: the part that every schedule without a better idea shares.
//
// One loop of the stage, the strip, runs in the lanes of vectors; it is the axis along which most accesses are
// contiguous. Along an output axis each lane makes an element of its own:
//
//   for b < E/16 { vector l < 16 { acc = identity; for k { acc = acc + body }; y[b*16 + l] = finish(acc) } }
//   for r < E%16 { the same for one element }                                      or one vector more, masked
//
// Along a reduction axis the lanes hold partial sums, which are combined at the end, always in the same order. Where an
// operand lies along another axis than the strip, a copy goes square by square: a line of it is used up while it is near.
// Results that go past the caches are made in several places by turns.
#pragma once

#include "lower/lowering.h"
#include "schedule/analysis/stage_vectorization.h"

namespace xyntra {

// A stage without a sum whose elements another one adds up, each of them once: made where they are added.
//   e[k] = exp(x[k] - m); s = sum(k) e[k]                  s = sum(k) (e[k] = exp(x[k] - m))
struct Alongside {
  const te::Stage* stage = nullptr;
  te::Substitution axes;  // its own, by the loops of the other one
};
std::optional<Alongside> made_alongside(const te::Formula& formula, const te::Stage& maker,
                                        const te::Stage& sum);

// What another stage does to the elements of its strip while a reduction goes along the same ones: before each.
struct Beside {
  std::function<kir::Stmt(const te::Expr& first)> round;  // some vectors, as many as the reduction has chains
  std::function<kir::Stmt(const Dim& first, const Dim& count)> rest;
  std::function<kir::Stmt()> begin = {}, end = {};  // of one that reduces them as well
};

class StageLowering : public StageVectorization {
 public:
  // `free` are the output axes that are loops here; the others are bound by the caller. When sums must keep their
  // order, no strip runs along one.
  StageLowering(Lowering& lowering, const te::Stage& stage, std::vector<te::VarId> free, bool keep_order);

  void look_ahead(Ahead ahead) { ahead_ = std::move(ahead); }
  void make(Alongside alongside) { alongside_ = std::move(alongside); }
  void do_beside(Beside beside) { beside_.push_back(std::move(beside)); }

  // Whether both go along as many elements and nothing else loops: this one reduces them, the other makes one of each.
  bool goes_along(const StageLowering& other) const;
  Beside beside(const te::Substitution& bound) const;
  // Whether both reduce as many elements and nothing else loops; and what this one does while the other goes along.
  bool reduces_along(const StageLowering& other) const;
  Beside reduced_beside(const te::Substitution& bound) const;
  // Rounds of a reduction, if it has a strip and nothing else loops; and its result if there were but the first of them.
  std::int64_t rounds() const;
  kir::Stmt reduce_first(const te::Substitution& bound, std::int64_t rounds) const;
  // Whether it makes the elements of a strip and nothing else loops; and the loop of several that do, round by round.
  bool has_rounds() const;
  kir::Stmt in_rounds(const std::vector<Beside>& writers) const;

  // All loops, one after another, in one work item.
  kir::Stmt serial(te::Substitution bound) const;
  // As phases of a kernel: outer loops become the grid.
  std::vector<kir::Stmt> phases() const;

 private:
  kir::Stmt around(const std::vector<te::VarId>& axes, kir::LoopKind kind, te::Substitution bound,
                   const std::function<kir::Stmt(te::Substitution)>& inner) const;
  kir::Stmt strips(te::Substitution bound) const;
  kir::Stmt by_ends(const std::string& name, te::Substitution bound, const te::Expr& begin,
                    std::int64_t lanes, kir::Stmt otherwise) const;
  bool masked(const Dim& rest) const;
  static kir::Stmt where_left(const Dim& done, const Dim& end, kir::Stmt body);
  kir::Stmt vectors_at(const std::string& name, te::Substitution bound, const te::Expr& begin,
                       std::int64_t vectors) const;
  kir::Stmt masked_vectors_at(const std::string& name, te::Substitution bound, const Dim& begin,
                              const Dim& end, std::int64_t vectors) const;
  kir::Stmt along_output(te::Substitution bound, const Dim& first, const Dim& count) const;
  kir::Stmt along_reduction(const te::Substitution& bound) const;
  kir::Stmt functions_in_turns(te::Substitution bound, const te::Expr& begin) const;
  kir::Stmt point(const te::Substitution& bound, const te::Expr& lane, std::int64_t width,
                  const te::Expr& when = {}) const;
  Lowering::Body term(const te::Substitution& bound) const;
  kir::Stmt add_term(kir::BufferId sum, const std::vector<te::Expr>& place,
                     const te::Substitution& bound) const;
  bool sums_by_blocks() const;
  kir::Stmt block_sums(const te::Substitution& bound, kir::BufferId sum,
                       const std::vector<te::Expr>& place) const;
  kir::Stmt chained_extremes(const te::Substitution& bound, kir::BufferId extreme,
                             const std::vector<te::Expr>& place) const;
  std::int64_t chains() const;
  kir::Stmt in_lanes(std::int64_t lanes, const std::function<kir::Stmt(const te::Expr& lane)>& body) const;
  kir::Stmt added(kir::BufferId sums, const te::Substitution& bound, const te::Expr& chain,
                  const te::Expr& lane) const;
  kir::BufferId place_of_sums() const;
  kir::Stmt begin_sums(kir::BufferId sums) const;
  kir::Stmt add_round(kir::BufferId sums, te::Substitution bound, const te::Expr& first) const;
  kir::Stmt add_rest(kir::BufferId sums, te::Substitution bound, const Dim& done) const;
  kir::Stmt all_rounds(const Dim& rounds, const std::function<kir::Stmt(const te::Expr& first)>& round) const;
  kir::Stmt end_sums(kir::BufferId sums, const te::Substitution& bound) const;
  kir::Stmt write_round(te::Substitution bound, const te::Expr& first) const;
  kir::Stmt result(const te::Substitution& bound, Lowering::Body value) const;
  Lowering::Body value_of(const te::Expr& body, const te::Substitution& bound) const;
  kir::Stmt after_fetching(te::Substitution bound, te::Expr first, kir::Stmt vector) const;
  kir::Stmt item(kir::Stmt body) const;
  std::vector<kir::Stmt> squares(te::VarId other, kir::LoopKind kind, const te::Substitution& given) const;
  kir::Stmt square_ahead(te::VarId other, te::Substitution bound, const te::Expr& row,
                         const te::Expr& begin) const;
  kir::Stmt transposed(te::VarId other, te::Substitution bound, te::Expr row, const te::Expr& begin,
                       std::int64_t count) const;
  std::vector<kir::Stmt> updates_apart() const;
  std::vector<kir::Stmt> in_blocks(std::size_t axis, std::int64_t together) const;
  struct Places {
    te::VarId axis;  // some turns of which one has; invalid where it is a page of the strip
    std::int64_t length = 0;  // turns of that axis, or elements of the page
    std::int64_t vectors = 1;  // of one place before the next has its turn
  };
  struct Place {
    te::Substitution bound;
    te::Expr first;  // element of the strip
  };
  std::optional<Places> places() const;
  Ahead next_places(const Places& places) const;
  std::vector<kir::Stmt> by_turns(const Places& places) const;
  kir::Stmt runs_of(const std::vector<Place>& places, const Dim& many, std::int64_t vectors) const;
  std::vector<kir::Stmt> in_pages(const Places& places) const;
  std::vector<kir::Stmt> in_rows(const Places& places) const;
  kir::Stmt turns(te::Substitution bound, const std::function<kir::Stmt(te::Substitution)>& inner) const;
  std::ptrdiff_t written_out() const;

  Lowering& lowering_;
  Alongside alongside_;
  std::vector<Beside> beside_;
};

}  // namespace xyntra
