#include "lower/cpu/contraction/register_tile.h"

#include "lower/cpu/contraction/line_panels.h"
#include "schedule/prepare/function_parts.h"
#include "schedule/prepare/split_finish.h"
#include "te/compose/compose.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::ExprNode;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kHeavyFinish =
    6;  // operations; beyond, the epilogue is a loop and not written out for every register

class RegisterTile {
 public:
  RegisterTile(const TiledContraction& contraction, const Substitution& bound, const ColumnRun& across,
               const RegisterRows& rows, const Among& among, const SumPass* pass)
      : contraction_(contraction),
        lowering_(contraction.lowering),
        stage_(contraction.stage),
        roles_(contraction.roles),
        tiling_(contraction.tiling),
        added_(contraction.added),
        bound_(bound),
        across_(across),
        rows_(rows),
        among_(among),
        pass_(pass),
        width_(across.width),
        vectors_(across.vectors),
        chains_(chains_of(contraction, pass, !rows.by_offset.empty(), rows.count * vectors_)),
        sum_(lowering_.scratch("acc", dtype_, {chains_ * rows.count, vectors_, width_}, Scope::Register)),
        line_(lowering_.scratch("b", dtype_, {vectors_, width_}, Scope::Register)),
        spread_(lowering_.scratch("a", dtype_, {}, Scope::Register)) {}

  Stmt run() {
    std::vector<Stmt> statements;
    statements.push_back(
        each(chains_ * rows_.count, [&](const Expr& row, const Expr& vector, const Expr& lane) {
          return Stmt::store(sum_, {row, vector, lane}, Expr::number(dtype_, 0));
        }));
    if (contraction_.ahead && stage_.finish.defined()) statements.push_back(ask_for_finish());
    statements.push_back(along_sum(contraction_, bound_, pass_, !rows_.by_offset.empty(),
                                   {.registers = rows_.count * vectors_, .chains = chains_},
                                   [&](const Substitution& inner, const Walk& walk, bool only_ask) {
                                     return turn(inner, walk, only_ask);
                                   }));
    for (Stmt& one : chains_added_up()) statements.push_back(std::move(one));
    if (added_ != nullptr) total_ = lowering_.scratch("t", added_->body.dtype(), {width_}, Scope::Register);
    statements.push_back(pass_ != nullptr && pass_->count > 1 ? after_pass() : after_sum());
    return Stmt::block(std::move(statements));
  }

 private:
  using Element = std::function<Expr(const Expr& row, const Expr& vector, const Expr& lane)>;
  using EachElement = std::function<Stmt(const Expr& row, const Expr& vector, const Expr& lane)>;

  // ---- places of a tile

  Stmt unrolled(const char* label, std::int64_t turns, const TiledContraction::AtNumber& body) {
    return contraction_.unrolled(label, turns, body);
  }
  Stmt lanes(const TiledContraction::AtNumber& body) { return contraction_.lanes(width_, body); }
  Stmt each(const EachElement& body) { return each(rows_.count, body); }
  Stmt each(std::int64_t rows, const EachElement& body) {
    return unrolled("r", rows, [&](const Expr& row) {
      return unrolled("v", vectors_, [&](const Expr& vector) {
        return lanes([&](const Expr& lane) { return body(row, vector, lane); });
      });
    });
  }

  Substitution at_row(Substitution variables, const Expr& row) const {
    if (tiling_.tile.valid()) variables[tiling_.tile.index] = rows_.first.defined() ? rows_.first + row : row;
    return variables;
  }
  Substitution at_read_row(Substitution variables, const Expr& row) const {
    variables = at_row(std::move(variables), row);
    if (rows_.clamped) {
      Expr& index = variables[tiling_.tile.index];
      index = te::min(index, Expr::size(contraction_.extent(tiling_.tile) - 1));
    }
    return variables;
  }
  Substitution at_column(Substitution variables, const Expr& vector, const Expr& lane) const {
    return tiling_.at_column(across_, std::move(variables), vector, lane);
  }

  Stmt where_row(const Expr& row, Stmt inside, Stmt outside = {}) const {
    if (!rows_.clamped) return inside;
    return Stmt::branch(at_row({}, row)[tiling_.tile.index] < Expr::size(contraction_.extent(tiling_.tile)),
                        std::move(inside), std::move(outside));
  }
  Stmt where_column(const Expr& vector, const Expr& lane, Stmt inside) const {
    return contraction_.where_column(across_, vector, lane, std::move(inside), {});
  }

  // ---- the sum

  Expr partial(const Expr& row, const Expr& vector, const Expr& lane) const {
    return Expr::load(sum_, dtype_, {row, vector, lane});
  }

  // The row of a partial sum among all that a tile keeps.
  Expr in_chain(const Expr& row, std::int64_t chain) const {
    return chain == 0 ? row : row + Expr::index(chain * rows_.count);
  }

  Stmt add(const Expr& element, const Expr& row, const Expr& vector, const Expr& lane,
           std::int64_t chain) const {
    const Expr place = in_chain(row, chain);
    Expr other = Expr::load(line_, dtype_, {vector, lane}), so_far = partial(place, vector, lane);
    return Stmt::store(sum_, {place, vector, lane},
                       contraction_.fused ? te::fma(element, other, so_far) : so_far + element * other);
  }

  // The second half of the partial sums is added to the first, until one is left.
  std::vector<Stmt> chains_added_up() {
    std::vector<Stmt> made;
    for (std::int64_t left = chains_; left > 1; left = (left + 1) / 2) {
      const std::int64_t kept = (left + 1) / 2;
      made.push_back(
          each((left - kept) * rows_.count, [&](const Expr& row, const Expr& vector, const Expr& lane) {
            return Stmt::store(sum_, {row, vector, lane},
                               partial(row, vector, lane) + partial(in_chain(row, kept), vector, lane));
          }));
    }
    return made;
  }

  Stmt turn(const Substitution& inner, const Walk& walk, bool only_ask) {
    std::vector<Stmt> made = ask_ahead(inner, walk);
    if (only_ask) return made.empty() ? Stmt() : Stmt::block(std::move(made));
    made.push_back(line_of(contraction_, inner, walk, across_, pass_,
                           [&](const Expr& vector, const Expr& lane, Expr value) {
                             return Stmt::store(line_, {vector, lane}, std::move(value));
                           }));
    if (roles_.lane_in_rows) {
      made.push_back(each([&](const Expr& row, const Expr& vector, const Expr& lane) {
        Lowering::Body value =
            lowering_.body(roles_.row_factor, at_column(at_read_row(inner, row), vector, lane));
        value.checks.push_back(add(value.value, row, vector, lane, walk.chain));
        return where_column(vector, lane, Stmt::block(std::move(value.checks)));
      }));
      return Stmt::block(std::move(made));
    }
    const RowsInside present = rows_present(inner);
    if (present.from == present.to) return Stmt::block(std::move(made));
    made.push_back(unrolled("r", present.to - present.from, [&](const Expr& number) {
      const Expr row = present.from == 0 ? number : number + Expr::index(present.from);
      Lowering::Body value = row_element(at_read_row(inner, row));
      std::vector<Stmt> one = std::move(value.checks);
      one.push_back(Stmt::store(spread_, {}, value.value));
      Expr element = Expr::load(spread_, dtype_, {});
      one.push_back(unrolled("v", vectors_, [&](const Expr& vector) {
        return lanes([&](const Expr& lane) { return add(element, row, vector, lane, walk.chain); });
      }));
      return Stmt::block(std::move(one));
    }));
    return Stmt::block(std::move(made));
  }

  // The element that is broadcast; where windows reach beyond their picture, what is outside was left out before.
  Lowering::Body row_element(const Substitution& variables) {
    const auto& border = contraction_.border;
    if (!border) return lowering_.body(roles_.row_factor, variables);
    std::vector<Expr> index;
    for (const Expr& one : border->index) index.push_back(lowering_.at(one, variables));
    return {{}, Expr::load(lowering_.placed(border->picture), dtype_, std::move(index))};
  }

  // Which of the rows of the tile an offset of the window has.
  RowsInside rows_present(const Substitution& inner) const {
    if (rows_.by_offset.empty()) return {0, rows_.count};
    return rows_.by_offset.at(
        static_cast<std::size_t>(inner.at(contraction_.side()->offset.index)->int_value));
  }

  // ---- what is asked for before it is needed

  Stmt ask_for_finish() {
    return unrolled("r", rows_.count, [&](const Expr& row) {
      auto at_place = [&](std::int64_t vector, std::int64_t lane) {
        return at_column(at_row(bound_, row), Expr::index(vector), Expr::index(lane));
      };
      std::vector<Substitution> places{at_place(vectors_ - 1, width_ - 1)};
      for (std::int64_t v = 0; v < vectors_; ++v) places.push_back(at_place(v, 0));
      return Stmt::block(ask_for_operands(lowering_, stage_.finish, roles_.lane, places));
    });
  }

  // Lines of the weights, at a turn, which is bound by `inner`.
  std::vector<Stmt> ask_ahead(const Substitution& inner, const Walk& walk) {
    const bool packed = pass_ != nullptr && pass_->panel.valid();
    if (packed && roles_.lane_factor->op == te::ExprOp::Load)
      return ask_for_next_panel(contraction_, inner, across_, among_);
    const ExprNode* lines = lines_of(lowering_, roles_, contraction_.ahead);
    if (lines == nullptr) return {};
    TileColumns columns{roles_.lane, tiling_.second, across_.base, {}, width_, vectors_};
    if (tiling_.second.valid()) columns.first_other = ContractionTiling::first_of_second(across_);
    // One pass over all tiles asks for the next pass, a tile that goes through the whole sum for the next panel.
    const bool through = pass_ == nullptr || pass_->alone;
    const std::int64_t turns = walk.turns.is_constant() ? walk.turns.constant() : 0;
    const Distance distance{pass_ != nullptr && pass_->alone ? pass_->depth->turns : turns, through};
    std::vector<Stmt> made = ask_for_next_lines(lowering_, *lines, columns, bound_, among_, walk, distance);
    const bool from_memory = lines_of(lowering_, roles_, false) != nullptr;
    if (!from_memory || (!tiling_.reads_once() && !among_.may_be_alone)) return made;
    for (Stmt& one : ask_for_lines_soon(lowering_, *lines, columns, inner, walk))
      made.push_back(std::move(one));
    return made;
  }

  // ---- the epilogue

  bool is_heavy() const {
    return stage_.finish.defined() && te::work_of(stage_.finish) > kHeavyFinish &&
           rows_.count * vectors_ > 2 && added_ == nullptr;
  }

  Stmt after_sum() {
    auto sum = [&](const Expr& row, const Expr& vector, const Expr& lane) {
      return partial(row, vector, lane);
    };
    if (!is_heavy()) return finish_each(sum);
    const kir::BufferId kept =
        lowering_.scratch("c", dtype_, {rows_.count * vectors_ * width_}, Scope::Register);
    return finish_kept(kept, {}, sum);
  }

  Stmt after_pass() {
    auto sum = [&](const Expr& row, const Expr& vector, const Expr& lane) {
      return so_far(row, vector, lane) + partial(row, vector, lane);
    };
    Stmt last = is_heavy() ? finish_kept(pass_->kept, pass_->place, sum) : finish_each(sum);
    if (pass_->count > 2) {
      last = Stmt::branch(equal(pass_->number, Expr::index(pass_->count - 1)), std::move(last),
                          keep_so_far(false));
    }
    return Stmt::branch(equal(pass_->number, Expr::index(0)), keep_so_far(true), std::move(last));
  }

  // A long epilogue goes over the tile in memory, and what does not depend on places of the result goes over all of it as one
  // row, several vectors at a time: steps of a function wait for one another.
  Stmt finish_kept(kir::BufferId kept, const std::vector<Expr>& place, const Element& sum) {
    // Where a line's size is not known, every part of a tile would need a proof of its own.
    const bool known = dtype_ == DType::F32 && contraction_.extent(roles_.lane).is_constant();
    const PlaceFree heavy = known ? place_free_part(stage_.finish) : PlaceFree();
    auto at = [&](const Expr& number) {
      std::vector<Expr> index = place;
      index.push_back(number);
      return index;
    };
    auto in_tile = [&](const Expr& row, const Expr& vector, const Expr& lane) {
      return at((row * Expr::index(vectors_) + vector) * Expr::index(width_) + lane);
    };
    std::vector<Stmt> made;
    made.push_back(each([&](const Expr& row, const Expr& vector, const Expr& lane) {
      Lowering::Body value{{}, sum(row, vector, lane)};
      if (heavy.whole.defined()) {
        const Substitution variables = at_column(at_row(bound_, row), vector, lane);
        value = lowering_.body(heavy.of, variables, value.value);
      }
      value.checks.push_back(Stmt::store(kept, in_tile(row, vector, lane), value.value));
      Stmt inside = Stmt::block(std::move(value.checks));
      if (!heavy.whole.defined()) return inside;
      const Stmt nothing = Stmt::store(kept, in_tile(row, vector, lane), Expr::number(dtype_, 0));
      if (te::reads_data(heavy.of)) inside = where_row(row, std::move(inside), nothing);
      return contraction_.where_column(across_, vector, lane, std::move(inside), nothing);
    }));
    if (heavy.whole.defined()) made.push_back(over_tile(kept, at, heavy));
    made.push_back(finish_in_loops(
        [&](const Expr& row, const Expr& vector, const Expr& lane) {
          return Expr::load(kept, dtype_, in_tile(row, vector, lane));
        },
        heavy));
    return Stmt::block(std::move(made));
  }

  // kept[i] = whole(kept[i]) for all elements of a tile, function by function where each is one of the value before it alone.
  Stmt over_tile(kir::BufferId kept, const std::function<std::vector<Expr>(const Expr&)>& at,
                 const PlaceFree& heavy) {
    std::vector<Expr> values{heavy.of};
    for (const Expr& part : function_parts(heavy.whole)) {
      if (is_made_of(part, values.back()) && is_made_of(heavy.whole, part)) values.push_back(part);
    }
    values.push_back(heavy.whole);
    std::vector<Stmt> made;
    for (std::size_t v = 0; v + 1 < values.size(); ++v)
      made.push_back(each_in_tile(kept, at, {values[v + 1], values[v]}));
    return Stmt::block(std::move(made));
  }

  Stmt each_in_tile(kir::BufferId kept, const std::function<std::vector<Expr>(const Expr&)>& at,
                    const PlaceFree& heavy) {
    constexpr std::int64_t kTogether = 4;  // vectors
    const std::int64_t all = rows_.count * vectors_ * width_;
    std::vector<Stmt> made;
    std::int64_t done = 0;
    for (std::int64_t step : {kTogether * width_, width_}) {
      const std::int64_t count = (all - done) / step;
      if (count == 0) continue;
      const VarId block = lowering_.loop("i", count), lane = lowering_.loop("l", step);
      const Expr number =
          Expr::index(done) + Expr::variable(block) * Expr::index(step) + Expr::variable(lane);
      const Expr element = Expr::load(kept, dtype_, at(number));
      te::Rewriter in_place([&](const Expr& expr) { return te::same(expr, heavy.of) ? element : Expr(); });
      Stmt one = Stmt::store(kept, at(number), in_place(heavy.whole));
      made.push_back(Stmt::loop(LoopKind::Serial, block, Stmt::loop(LoopKind::Vector, lane, std::move(one))));
      done += count * step;
    }
    return Stmt::block(std::move(made));
  }

  std::vector<Expr> kept_at(const Expr& row, const Expr& vector, const Expr& lane) const {
    std::vector<Expr> place = pass_->place;
    place.push_back((row * Expr::index(vectors_) + vector) * Expr::index(width_) + lane);
    return place;
  }
  Expr so_far(const Expr& row, const Expr& vector, const Expr& lane) const {
    return Expr::load(pass_->kept, dtype_, kept_at(row, vector, lane));
  }
  Stmt keep_so_far(bool first) {
    return each([&](const Expr& row, const Expr& vector, const Expr& lane) {
      Expr sum_of_part = partial(row, vector, lane);
      return Stmt::store(pass_->kept, kept_at(row, vector, lane),
                         first ? sum_of_part : so_far(row, vector, lane) + sum_of_part);
    });
  }

  Stmt finish_each(const Element& value) {
    return unrolled("r", rows_.count, [&](const Expr& row) {
      Stmt each_vector = unrolled("v", vectors_, [&](const Expr& vector) {
        return lanes([&](const Expr& lane) { return finished(value(row, vector, lane), row, vector, lane); });
      });
      if (added_ != nullptr) each_vector = with_total(row, std::move(each_vector));
      return where_row(row, std::move(each_vector));
    });
  }
  // Unrolled where lanes are stored far apart and functions are done: such a tile is transposed in registers.
  Stmt finish_in_loops(const Element& value, const PlaceFree& heavy) {
    const bool apart = !lowering_.contiguous_in_blocks(stage_.target, stage_.store, roles_.lane, width_);
    if (apart && heavy.whole.defined() && added_ == nullptr) {
      return unrolled("r", rows_.count, [&](const Expr& row) {
        return where_row(row, unrolled("v", vectors_, [&](const Expr& vector) {
                           return lanes([&](const Expr& lane) {
                             return finished(value(row, vector, lane), row, vector, lane, &heavy);
                           });
                         }));
      });
    }
    VarId row = lowering_.loop("r", rows_.count), vector = lowering_.loop("v", vectors_);
    const Expr r = Expr::variable(row), v = Expr::variable(vector);
    Stmt body = lanes([&](const Expr& lane) { return finished(value(r, v, lane), r, v, lane, &heavy); });
    body = Stmt::loop(LoopKind::Serial, vector, std::move(body));
    return Stmt::loop(LoopKind::Serial, row, where_row(r, std::move(body)));
  }

  // `heavy`: a part of the finish that the value stands for already.
  Stmt finished(const Expr& value, const Expr& row, const Expr& vector, const Expr& lane,
                const PlaceFree* heavy = nullptr) {
    Substitution variables = at_column(at_row(bound_, row), vector, lane);
    Lowering::Body result{{}, value};
    if (heavy != nullptr && heavy->whole.defined()) {
      const Expr accumulator = Expr::accumulator(heavy->whole.dtype());
      te::Rewriter known(
          [&](const Expr& expr) { return te::same(expr, heavy->whole) ? accumulator : Expr(); });
      result = lowering_.body(known(stage_.finish), variables, value);
    } else if (stage_.finish.defined()) {
      result = lowering_.body(stage_.finish, variables, value);
    }
    Stmt stored = lowering_.store(stage_, variables, std::move(result));
    if (added_ != nullptr) {
      const Expr added = lowering_.at(added_->body, variables);
      stored = Stmt::block({std::move(stored), Stmt::store(total_, {lane}, total_at(lane) + added)});
    }
    return where_column(vector, lane, std::move(stored));
  }

  // What is added to for all vectors of a row stays in a register meanwhile.
  Expr total_at(const Expr& lane) const { return Expr::load(total_, added_->body.dtype(), {lane}); }
  Stmt with_total(const Expr& row, Stmt body) {
    auto at_lane = [&](const Expr& lane) {
      Substitution variables = at_row(bound_, row);
      variables[contraction_.added_lane.index] = lane;
      return variables;
    };
    const Expr held = Expr::load(added_->target, added_->body.dtype(), added_->store);
    Stmt before = lanes(
        [&](const Expr& lane) { return Stmt::store(total_, {lane}, lowering_.at(held, at_lane(lane))); });
    Stmt after = lanes(
        [&](const Expr& lane) { return lowering_.store(*added_, at_lane(lane), {{}, total_at(lane)}); });
    return Stmt::block({std::move(before), std::move(body), std::move(after)});
  }

  const TiledContraction& contraction_;
  Lowering& lowering_;
  const Stage& stage_;
  const ContractionRoles& roles_;
  const ContractionTiling& tiling_;
  const Stage* added_;
  const Substitution& bound_;
  const ColumnRun& across_;
  const RegisterRows& rows_;
  const Among& among_;
  const SumPass* pass_;
  const DType dtype_ = stage_.body.dtype();
  const std::int64_t width_, vectors_, chains_;
  const kir::BufferId sum_, line_,
      spread_;  // line: of the lane factor; spread: the element that is broadcast
  kir::BufferId total_;
};

// A tile whose sum is added up from shorter ones: the error of a sum grows with its length.
Stmt tile_of_short_sums(const TiledContraction& contraction, const SumCut& depth, const Substitution& bound,
                        const ColumnRun& across, const RegisterRows& rows, const Among& among) {
  SumPass pass;
  pass.depth = &depth;
  pass.alone = true;
  pass.kept = contraction.lowering.scratch("c", contraction.stage.body.dtype(),
                                           {rows.count * across.vectors * across.width}, Scope::Shared);
  return in_passes(contraction, bound, pass, [&](const Substitution& inner) {
    return register_tile(contraction, inner, across, rows, among, &pass);
  });
}

}  // namespace

Stmt register_tile(const TiledContraction& contraction, const Substitution& bound, const ColumnRun& across,
                   const RegisterRows& rows, const Among& among, const SumPass* pass) {
  if (pass == nullptr) {
    auto depth = contraction.tiling.cut_sum(kLongestSum);
    if (depth) return tile_of_short_sums(contraction, *depth, bound, across, rows, among);
  }
  return RegisterTile(contraction, bound, across, rows, among, pass).run();
}

}  // namespace xyntra
