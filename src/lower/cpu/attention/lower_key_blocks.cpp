#include "lower/cpu/attention/lower_key_blocks.h"

#include <algorithm>

#include "lower/cpu/attention/lower_part_tiles.h"
#include "lower/cpu/contraction/lower_contraction.h"
#include "lower/lower_stage.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

class KeyBlockLowering {
 public:
  KeyBlockLowering(Lowering& lowering, const KeyBlocks& blocks, const Schedule& schedule)
      : lowering_(lowering), blocks_(blocks), schedule_(schedule) {
    schedule_.knobs = {{"tile_columns", blocks_.tile_columns}};
    if (blocks_.parts) tiles_.emplace(lowering_, blocks_, blocks_.queries.queries());
  }

  std::vector<Stmt> phases() {
    std::vector<Stmt> made;
    for (const Stage& stage : blocks_.packed) {
      lowering_.place(stage.target, Scope::Workspace);
      std::vector<Stmt> packed = StageLowering(lowering_, stage, stage.axes, false).phases();
      made.insert(made.end(), packed.begin(), packed.end());
    }
    if (tiles_) {
      std::vector<Stmt> parts = tiles_->pack();
      made.insert(made.end(), parts.begin(), parts.end());
    }
    std::vector<VarId> grid;
    for (VarId row : blocks_.rows) {
      grid.push_back(lowering_.loop("row", extent(row)));
      rows_[row.index] = Expr::variable(grid.back());
    }
    const Dim& queries = extent(blocks_.query);
    const std::int64_t together = blocks_.queries.queries();
    const Dim full = floor_div(queries, together), rest = queries - full * together;
    VarId number = lowering_.loop("q", rest.is(0) ? full : full + 1);
    grid.push_back(number);
    Stmt body = block(blocks_.queries, Expr::variable(number) * Expr::index(together), {});
    if (!body.defined()) return {};
    if (!rest.is(0)) {
      // The last block begins early enough to be a whole one; what another has stored it leaves alone.
      Stmt last =
          block(blocks_.last, Expr::size(queries - blocks_.last.queries()), Expr::size(full * together));
      if (!rest.is_constant()) last = Stmt::branch(Expr::index(0) < Expr::size(rest), std::move(last));
      if (!queries.is_constant())
        last = Stmt::branch(Expr::index(together) <= Expr::size(queries), std::move(last));
      body = Stmt::branch(Expr::variable(number) < Expr::size(full), std::move(body), std::move(last));
    }
    for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
      body = Stmt::loop(LoopKind::Grid, *loop, std::move(body));
    made.push_back(std::move(body));
    return made;
  }

 private:
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }

  // All stages for some queries from `first` on; results before `from` are not stored.
  Stmt block(const QueryBlock& queries, const Expr& first, const Expr& from) {
    queries_ = queries.queries();
    for (te::BufferId buffer : blocks_.held) {
      const std::vector<bool> kept(lowering_.formula().buffer(buffer).shape.size(), true);
      lowering_.place_window(buffer, Scope::Shared, kept, {0, first, queries_});
    }
    for (te::BufferId flag : blocks_.flags) lowering_.place(flag, Scope::Shared);
    if (blocks_.parts) lowering_.place(blocks_.parts->wide, Scope::Shared);
    VarId number = lowering_.loop("b", blocks_.count);
    Substitution bound = rows_;
    bound[blocks_.block.index] = Expr::variable(number);
    RowBlock rows{blocks_.query, first, queries.tile_rows, queries.tiles, true};
    Stmt scores = lower_row_block(lowering_, blocks_.scores, schedule_, bound, rows);
    Stmt weighted = lower_row_block(lowering_, blocks_.weighted, schedule_, bound, rows);
    rows.added = &blocks_.summed;
    rows.lane = blocks_.lane;
    Stmt weights = lower_row_block(lowering_, blocks_.weights, schedule_, bound, rows);
    if (!scores.defined() || !weighted.defined() || !weights.defined()) return {};
    const Expr choose = lowering_.at(blocks_.choose, bound),
               too_large = lowering_.at(blocks_.too_large, bound);
    Stmt at_once = Stmt::block({clear_flags(), row_by_row(blocks_.before_weights, bound, first, {}),
                                std::move(weights), group_by_group(blocks_.check_weights, bound, first)});
    Stmt again = Stmt::block({clear_flags(), std::move(scores), group_by_group(blocks_.softmax, bound, first),
                              row_by_row(blocks_.correct, bound, first, {})});
    Stmt one = Stmt::block(
        {Stmt::branch(choose, set_flags(), std::move(at_once)),
         Stmt::branch(too_large, std::move(again), group_by_group(blocks_.keep_weights, bound, first)),
         std::move(weighted)});
    std::vector<Stmt> begin{row_by_row(blocks_.begin, rows_, first, {}), clear_flags()};
    if (tiles_) {
      one = Stmt::branch(lowering_.at(blocks_.parts->fits, bound), by_parts(bound, first), std::move(one));
      begin.push_back(split_queries(first));
    }
    if (blocks_.seen.defined()) {
      bound[blocks_.query.index] = first + Expr::index(queries_ - 1);
      const Expr seen = lowering_.at(blocks_.seen, bound), matters = lowering_.at(blocks_.matters, bound);
      one = Stmt::branch(seen | matters, std::move(one));
    }
    Stmt keys = Stmt::loop(LoopKind::Serial, number, std::move(one));
    begin.push_back(std::move(keys));
    begin.push_back(row_by_row(blocks_.end, rows_, first, from));
    return Stmt::block(std::move(begin));
  }

  // The queries as parts, and whether they are fit for it.
  Stmt split_queries(const Expr& first) {
    const KeyBlockParts& parts = *blocks_.parts;
    return Stmt::block({put(parts.wide, 0), group_by_group(parts.look_at_queries, rows_, first),
                        tiles_->split_queries(rows_, {first, queries_})});
  }

  // One block of keys on tiles.
  Stmt by_parts(const Substitution& bound, const Expr& first) {
    const PartTiles::Queries queries{first, queries_};
    const Expr choose = lowering_.at(blocks_.choose, bound),
               too_large = lowering_.at(blocks_.too_large, bound);
    Stmt at_once =
        Stmt::block({clear_flags(), row_by_row(blocks_.before_weights, bound, first, {}),
                     tiles_->weights(bound, queries), group_by_group(blocks_.check_weights, bound, first)});
    Stmt again = Stmt::block(
        {clear_flags(), tiles_->scores(bound, queries), group_by_group(blocks_.softmax, bound, first),
         row_by_row(blocks_.correct, bound, first, {}), tiles_->split_weights(bound, queries)});
    return Stmt::block(
        {Stmt::branch(choose, set_flags(), std::move(at_once)),
         Stmt::branch(too_large, std::move(again), group_by_group(blocks_.keep_weights, bound, first)),
         tiles_->weighted(bound, queries)});
  }

  Stmt row_by_row(const std::vector<Stage>& stages, Substitution bound, const Expr& first, const Expr& from) {
    VarId row = lowering_.loop("r", queries_);
    const Expr query = first + Expr::variable(row);
    bound[blocks_.query.index] = query;
    std::vector<Stmt> body;
    for (const Stage& stage : stages) {
      std::vector<VarId> free = stage.axes;
      std::erase(free, blocks_.query);
      body.push_back(StageLowering(lowering_, stage, std::move(free), false).serial(bound));
    }
    Stmt one = Stmt::block(std::move(body));
    if (from.defined()) one = Stmt::branch(query >= from, std::move(one));
    return Stmt::loop(LoopKind::Serial, row, std::move(one));
  }

  Stmt clear_flags() { return put_flags(0); }
  Stmt set_flags() { return put_flags(1); }
  Stmt put_flags(int value) {
    std::vector<Stmt> made;
    for (te::BufferId flag : blocks_.flags) made.push_back(put(flag, value));
    return Stmt::block(std::move(made));
  }
  Stmt put(te::BufferId flag, int value) {
    return Stmt::store(lowering_.placed(flag), {},
                       Expr::number(lowering_.formula().buffer(flag).dtype, value));
  }

  Stmt group_by_group(const std::vector<Stage>& stages, Substitution bound, const Expr& first) {
    // The stage after it adds up what this one makes.
    auto alongside = [&](std::size_t s) {
      return made_alongside(lowering_.formula(), stages[s], stages[s + 1]);
    };
    VarId number = lowering_.loop("g", queries_ / blocks_.group_rows);
    bound[blocks_.group.index] = first + Expr::variable(number) * Expr::index(blocks_.group_rows);
    std::vector<Stmt> body;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const Stage& stage = stages[s];
      if (s + 1 < stages.size() && alongside(s)) continue;
      StageLowering made(lowering_, stage, stage.axes, false);
      if (auto before = s > 0 ? alongside(s - 1) : std::nullopt) made.make(std::move(*before));
      body.push_back(made.serial(bound));
    }
    return Stmt::loop(LoopKind::Serial, number, Stmt::block(std::move(body)));
  }

  Lowering& lowering_;
  const KeyBlocks& blocks_;
  Schedule schedule_;
  Substitution rows_;
  std::int64_t queries_ = 1;  // that go through the keys together
  std::optional<PartTiles> tiles_;
};

}  // namespace

std::vector<Stmt> lower_key_blocks(Lowering& lowering, const KeyBlocks& blocks, const Schedule& schedule) {
  return KeyBlockLowering(lowering, blocks, schedule).phases();
}

}  // namespace xyntra
