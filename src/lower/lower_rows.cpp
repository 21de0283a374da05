#include "lower/lower_rows.h"

#include <algorithm>

#include "lower/lower_stage.h"
#include "schedule/analysis/shared_rows.h"
#include "schedule/prepare/softmax_stages.h"
#include "te/cost/effort.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::BufferRole;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kRowsInFlight = 33;  // of a work item that writes one while it makes the next; odd
constexpr std::int64_t kRowsTogether = 4;  // that are written in one loop
constexpr std::int64_t kSharedBytes = 8192;  // of what all rows read, from which on that pays

// Inputs that a stage reads along a row, one load of each.
std::map<te::BufferId, Expr> read_along(const Lowering& lowering, const Stage& stage, VarId row) {
  std::map<te::BufferId, Expr> found;
  std::vector<Expr> waiting{stage.body};
  if (stage.finish.defined()) waiting.push_back(stage.finish);
  te::Visited seen;
  while (!waiting.empty()) {
    Expr expr = waiting.back();
    waiting.pop_back();
    if (!seen.insert(expr.address())) continue;
    waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
    if (expr->op != te::ExprOp::Load) continue;
    bool input = lowering.formula().buffer(expr->buffer).role == BufferRole::Input;
    if (input && te::variables_of(expr).count(row)) found.emplace(expr->buffer, expr);
  }
  return found;
}

// Whether the next row of a buffer should come while one is worked on: it comes from memory, and rows are short enough
// that two do not push each other out of a core's cache.
bool comes_from_memory(const Lowering& lowering, te::BufferId id, const Dim& rows) {
  const te::BufferInfo& buffer = lowering.formula().buffer(id);
  const Target& target = lowering.target();
  const std::int64_t bytes = lowering.size(product(buffer.shape)) * bits_of(buffer.dtype) / 8;
  const std::int64_t of_row = bytes / std::max<std::int64_t>(1, lowering.size(rows));
  return target.kind == TargetKind::Cpu && bytes > target.last_level_bytes && of_row <= target.l2_bytes / 8;
}

class RowLowering : private SharedRows {
 public:
  RowLowering(Lowering& lowering, std::size_t first, std::size_t last, bool keep_order)
      : SharedRows(lowering, first, last, keep_order), lowering_(lowering) {}

  Stmt run() {
    if (!find_rows()) return {};
    for (const Stage& stage : part_.stages) {
      if (!lowering_.is_placed(stage.target)) own_.push_back(stage.target);
    }
    for (std::size_t s = 0; s < part_.stages.size(); ++s) {
      for (const auto& [id, load] : read_along(lowering_, part_.stages[s], innermost(s)))
        readers_[id].push_back(s);
      if (!is_made_with_next(s)) steps_.push_back(s);
    }
    Stmt made = in_flight();
    if (!made.defined()) made = together();
    return made.defined() ? made : one_by_one(Expr::index(0), alignment_.extent(rows_.back()));
  }

 private:
  VarId innermost(std::size_t s) const { return alignment_.axis_of(s, rows_.back()); }

  // Elements that the next stage adds up are made where they are added; those of a long function by themselves, several vectors of
  // them in step.
  std::optional<Alongside> alongside(std::size_t s) const {
    constexpr std::int64_t kLong = 100;
    if (keep_order_ || s + 1 >= part_.stages.size()) return std::nullopt;
    if (te::effort_of(part_.stages[s].body) >= kLong) return std::nullopt;
    return made_alongside(part_, part_.stages[s], part_.stages[s + 1]);
  }
  bool is_made_with_next(std::size_t s) const { return alongside(s).has_value(); }

  void place() {
    for (te::BufferId id : own_) {
      Held held = held_by_rows(id);
      bool small = held.bytes.is_constant() && held.bytes.constant() <= 64;
      lowering_.place(id, small ? Scope::Register : Scope::Shared, held.kept);
    }
  }

  // The last of several stages that read a row has it in cache, and often writes: memory has time for a row to come.
  Ahead ahead(std::size_t s, const std::optional<Alongside>& before, const Expr& next) {
    std::vector<Expr> again;
    for (std::size_t reader = before ? s - 1 : s; reader <= s; ++reader) {
      for (const auto& [id, load] : read_along(lowering_, part_.stages[reader], innermost(reader))) {
        bool last_of_several = readers_[id].size() > 1 && readers_[id].back() == reader;
        if (last_of_several && comes_from_memory(lowering_, id, alignment_.extent(rows_.back())))
          again.push_back(reader == s ? load : te::substituted(load, before->axes));
      }
    }
    return {std::move(again), innermost(s), next, 0, 0, true};
  }

  StageLowering step(std::size_t s, const Expr& next) {
    StageLowering made(lowering_, part_.stages[s], free_axes(s, rows_), keep_order_);
    std::optional<Alongside> before = s > 0 ? alongside(s - 1) : std::nullopt;
    if (next.defined()) made.look_ahead(ahead(s, before, next));
    if (before) made.make(std::move(*before));
    return made;
  }

  Substitution bound(std::size_t s, const Expr& row) const {
    Substitution bound;
    for (std::size_t r = 0; r + 1 < rows_.size(); ++r)
      bound[alignment_.axis_of(s, rows_[r]).index] = Expr::variable(outer_[r]);
    bound[innermost(s).index] = row;
    return bound;
  }

  void begin_grid() {
    outer_.clear();
    for (std::size_t r = 0; r + 1 < rows_.size(); ++r)
      outer_.push_back(lowering_.loop("row", alignment_.extent(rows_[r])));
  }

  Stmt over_grid(VarId inner, Stmt body) const {
    body = Stmt::loop(LoopKind::Grid, inner, std::move(body));
    for (auto loop = outer_.rbegin(); loop != outer_.rend(); ++loop)
      body = Stmt::loop(LoopKind::Grid, *loop, std::move(body));
    return body;
  }

  Stmt one_by_one(const Expr& from, const Dim& count) {
    place();
    begin_grid();
    VarId number = lowering_.loop("row", count);
    const Expr row = from + Expr::variable(number);
    std::vector<Stmt> body;
    for (std::size_t s : steps_) body.push_back(step(s, row + 1).serial(bound(s, row)));
    return over_grid(number, Stmt::block(std::move(body)));
  }

  // ---- two rows in flight

  // The elements that the step before the last makes and adds up; the last one reads each at its own place, and may do so right
  // before the next row's are written there.
  bool is_read_in_place(const Stage& maker, const Stage& reader) const {
    bool in_place = true;
    te::for_each_node(reader, [&](const te::ExprNode& node) {
      if (!te::is_load(node) || node.buffer != maker.target) return;
      const std::vector<Expr> index = te::index_of(node);
      const std::vector<bool> kept = held_by_rows(maker.target).kept;
      for (std::size_t d = 0; d < index.size(); ++d)
        in_place = in_place && (!kept[d] || index[d]->op == te::ExprOp::Var);
      in_place = in_place && std::count(kept.begin(), kept.end(), true) == 1;
    });
    return in_place;
  }

  bool is_worth_it() {
    const Dim& count = alignment_.extent(rows_.back());
    if (!count.is_constant() || count.constant() < 4 * kRowsInFlight || steps_.size() < 2) return false;
    const std::size_t last = steps_.back(), sums = steps_[steps_.size() - 2];
    const std::optional<Alongside> elements = sums > 0 ? alongside(sums - 1) : std::nullopt;
    if (!elements || !is_read_in_place(*elements->stage, part_.stages[last])) return false;
    elements_ = elements->stage->target;
    const StageLowering writer = step(last, {});
    return writer.leaves_caches() && step(sums, {}).goes_along(writer);
  }

  // What is written while everything has its place elsewhere.
  template <class Write>
  auto elsewhere(const Lowering::Places& places, const Write& write) {
    return [this, places, write](const auto&... given) {
      const Lowering::Places here = lowering_.places();
      lowering_.put(places);
      auto written = write(given...);
      lowering_.put(here);
      return written;
    };
  }
  // What a stage does where the row of that turn has everything.
  Beside in_turn(const Beside& writer, std::size_t turn) {
    return {elsewhere(turns_[turn], writer.round), elsewhere(turns_[turn], writer.rest)};
  }

  // All steps of a row but the last. The row before has been through them, and is written meanwhile, where there is one.
  Stmt steps_of(const Expr& row, std::size_t turn, bool has_before) {
    const std::size_t last = steps_.back(), sums = steps_[steps_.size() - 2];
    lowering_.put(turns_[turn]);
    std::vector<Stmt> body;
    for (std::size_t s : steps_) {
      if (s == last) continue;
      StageLowering made = step(s, row + 1);
      if (s == 0 && rounds_guessed_ > 0) {
        body.push_back(made.reduce_first(bound(s, row), rounds_guessed_));
        continue;
      }
      if (has_before && s == sums)
        made.do_beside(in_turn(step(last, {}).beside(bound(last, row - 1)), 1 - turn));
      if (s == sums && rounds_guessed_ > 0) {
        Beside found = step(0, {}).reduced_beside(bound(0, row));
        found.end = elsewhere(with_found_maximum(), found.end);
        made.do_beside(std::move(found));
      }
      body.push_back(made.serial(bound(s, row)));
    }
    if (rounds_guessed_ > 0) body.push_back(again_unless_near(row));
    return Stmt::block(std::move(body));
  }

  // ---- a guessed maximum
  //
  // exp(x - m) divided by the sum of these is the same number for every m; m is there so that no exponent is too large. The maximum of a row's
  // beginning will do, if the row's own is hardly larger: then its elements are looked at once instead of twice. The
  // row's own is found along with the sum, and where it is larger by more, the row is made again with it.

  static constexpr std::int64_t kGuessedFrom = 4;  // of the rounds of a row, one part
  static constexpr double kLead = 4;  // of the maximum; differences below it have an error of 2^-23

  void guess_maximum() {
    rounds_guessed_ = 0;
    if (steps_ != std::vector<std::size_t>{0, 2, 3} || part_.stages.size() != 4) return;
    if (!divides_exponents(lowering_.formula(), part_.stages)) return;
    const StageLowering maximum = step(0, {}), sums = step(steps_[1], {});
    if (maximum.reduces_along(sums)) rounds_guessed_ = maximum.rounds() / kGuessedFrom;
  }

  // The place of the maximum that is found while a guess is in its place.
  Lowering::Places with_found_maximum() {
    Lowering::Places places = lowering_.places();
    places[part_.stages[0].target].buffer = found_;
    return places;
  }

  Stmt again_unless_near(const Expr& row) {
    const Stage& maximum = part_.stages[0];
    const Substitution at = bound(0, row);
    const Expr guess = lowering_.load_target(maximum, at);
    const Expr found = elsewhere(with_found_maximum(), [&] { return lowering_.load_target(maximum, at); })();
    Stmt again = step(steps_[1], {}).serial(bound(steps_[1], row));
    again = Stmt::block({lowering_.store(maximum, at, found), std::move(again)});
    const Expr near =
        found - guess <= Expr::number(found.dtype(), kLead);  // not so where one is not a number
    return Stmt::branch(!near, std::move(again));
  }

  Stmt in_flight() {
    if (!is_worth_it()) return {};
    begin_grid();
    place();
    turns_ = {lowering_.places()};
    std::erase(own_, elements_);
    place();
    turns_.push_back(lowering_.places());
    own_.push_back(elements_);
    guess_maximum();
    if (rounds_guessed_ > 0) {
      const te::BufferId maximum = part_.stages[0].target;
      lowering_.place(maximum, Scope::Register, turns_[0].at(maximum).kept);
      found_ = lowering_.placed(maximum);
    }
    const std::int64_t count = alignment_.extent(rows_.back()).constant(), full = count / kRowsInFlight;
    VarId chunk = lowering_.loop("rows", full), pair = lowering_.loop("pair", kRowsInFlight / 2);
    const Expr first = Expr::variable(chunk) * Expr::index(kRowsInFlight),
               row = first + Expr::variable(pair) * Expr::index(2);
    std::vector<Stmt> body{steps_of(first, 0, false)};
    std::vector<Stmt> two{steps_of(row + 1, 1, true), steps_of(row + 2, 0, true)};
    body.push_back(Stmt::loop(LoopKind::Serial, pair, Stmt::block(std::move(two))));
    lowering_.put(turns_[0]);
    const std::size_t last = steps_.back();
    body.push_back(step(last, {}).serial(bound(last, first + (kRowsInFlight - 1))));
    Stmt made = over_grid(chunk, Stmt::block(std::move(body)));
    const std::int64_t done = full * kRowsInFlight;
    if (done == count) return made;
    return Stmt::block({std::move(made), one_by_one(Expr::index(done), Dim(count - done))});
  }

  // ---- rows written together

  // Bytes that a stage reads of inputs, the same ones for every row.
  std::int64_t shared_bytes(const Stage& stage, VarId row) const {
    std::map<te::BufferId, std::int64_t> found;
    te::for_each_node(stage, [&](const te::ExprNode& node) {
      if (!te::is_load(node) || part_.buffer(node.buffer).role != BufferRole::Input) return;
      for (const Expr& index : te::index_of(node)) {
        if (te::variables_of(index).count(row)) return;
      }
      const te::BufferInfo& buffer = part_.buffer(node.buffer);
      found[node.buffer] = lowering_.size(product(buffer.shape)) * bits_of(buffer.dtype) / 8;
    });
    std::int64_t bytes = 0;
    for (const auto& [id, one] : found) bytes += one;
    return bytes;
  }

  Stmt together() {
    const Dim& count = alignment_.extent(rows_.back());
    const std::size_t last = steps_.back();
    if (!count.is_constant() || count.constant() < 4 * kRowsTogether || steps_.size() < 2) return {};
    const StageLowering writer = step(last, {});
    if (!writer.leaves_caches() || !writer.has_rounds()) return {};
    if (shared_bytes(part_.stages[last], innermost(last)) < kSharedBytes) return {};
    begin_grid();
    const std::int64_t groups = count.constant() / kRowsTogether, done = groups * kRowsTogether;
    VarId group = lowering_.loop("rows", groups);
    const Expr first = Expr::variable(group) * Expr::index(kRowsTogether);
    std::vector<Stmt> body;
    std::vector<Beside> writers;
    for (std::int64_t r = 0; r < kRowsTogether; ++r) {
      place();
      turns_.push_back(lowering_.places());
      const Expr row = first + Expr::index(r);
      for (std::size_t s : steps_) {
        if (s != last) body.push_back(step(s, {}).serial(bound(s, row)));
      }
      const Beside one = step(last, row + Expr::index(kRowsTogether)).beside(bound(last, row));
      writers.push_back(in_turn(one, turns_.size() - 1));
    }
    body.push_back(writer.in_rounds(writers));
    Stmt made = over_grid(group, Stmt::block(std::move(body)));
    if (done == count.constant()) return made;
    return Stmt::block({std::move(made), one_by_one(Expr::index(done), Dim(count.constant() - done))});
  }

  Lowering& lowering_;
  std::vector<te::BufferId> own_;  // what lies between the stages
  std::map<te::BufferId, std::vector<std::size_t>> readers_;
  std::vector<std::size_t> steps_;  // stages, but for those that are made along with the next
  std::vector<VarId> outer_;  // loops over all rows but the innermost
  te::BufferId elements_;  // of two rows in flight, in one place
  std::int64_t rounds_guessed_ = 0;  // of a row that its maximum is guessed from; 0: none
  kir::BufferId found_;  // the maximum itself
  std::vector<Lowering::Places> turns_;  // where rows that are worked on at a time have everything
};

}  // namespace

Stmt lower_row_items(Lowering& lowering, std::size_t first, std::size_t last, bool keep_order) {
  return RowLowering(lowering, first, last, keep_order).run();
}

}  // namespace xyntra
