#include "lower/cpu/attention/lower_part_tiles.h"

#include "schedule/contraction/float_parts.h"
#include "schedule/contraction/tile_form.h"

namespace xyntra {

using kir::Intrinsic;
using kir::LoopKind;
using kir::Operand;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kPartAcross = 2;  // tiles of a block, either way
constexpr std::int64_t kPartRows = kPartAcross * kTileRows, kPartColumns = kPartAcross * kTileColumns;
constexpr std::int64_t kPartSlots = 2;  // the sums that are used, and those being made
constexpr auto kStepProducts =
    static_cast<std::int64_t>(kPartProducts.size()) * kPartAcross * kPartAcross;  // of a step

Operand number(std::int64_t value) { return {{}, {}, Expr::index(value)}; }

Stmt over_lanes(Lowering& lowering, const std::function<Stmt(const Expr& lane)>& body) {
  const VarId lane = lowering.loop("l", kTileColumns);
  return Stmt::loop(LoopKind::Vector, lane, body(Expr::variable(lane)));
}

Stmt serial(Lowering& lowering, const char* name, const Dim& turns,
            const std::function<Stmt(const Expr& turn)>& body) {
  const VarId turn = lowering.loop(name, turns);
  return Stmt::loop(LoopKind::Serial, turn, body(Expr::variable(turn)));
}

// For each tile of a block.
void each(const std::function<void(std::int64_t, std::int64_t)>& action) {
  for (std::int64_t u = 0; u < kPartAcross; ++u) {
    for (std::int64_t v = 0; v < kPartAcross; ++v) action(u, v);
  }
}

}  // namespace

PartTiles::PartTiles(Lowering& lowering, const KeyBlocks& blocks, std::int64_t queries)
    : lowering_(lowering), blocks_(blocks) {
  auto registers = [&](const char* name, DType dtype, const Shape& shape) {
    return lowering_.scratch(name, dtype, shape, Scope::Register);
  };
  auto parts = [&](const char* name, std::int64_t steps) {
    return lowering_.scratch(name, DType::BF16,
                             {queries / kTileRows, steps, kFloatParts, kTileRows, kTileDepth}, Scope::Shared);
  };
  sum_ = registers("sum", DType::F32, {kPartAcross, kPartAcross, kTileRows, kTileColumns});
  left_ = registers("left", DType::BF16, {kPartAcross, kTileRows, kTileDepth});
  right_ = registers("right", DType::BF16, {kPartAcross, kTilePairs, kTileDepth});
  pair_ = registers("w", DType::F32, {kPartAcross, kTileColumns});
  sums_ = lowering_.scratch("c", DType::F32, {kPartSlots, kPartRows, kPartColumns}, Scope::Shared);
  queries_ = parts("q", blocks_.parts->depth_steps);
  weights_ = parts("p", blocks_.parts->key_steps);
}

// ---- products

// Those of block 0; for t { those of block t + 1, between them the rows of block t }; the last rows.
Stmt PartTiles::over_blocks(const Product& product, const Row& row) {
  const std::int64_t count = product.across * (product.queries.count / kPartRows);
  std::vector<Stmt> made{multiply(product, Expr::index(0), {})};
  if (count > 1) {
    made.push_back(serial(lowering_, "t", count - 1,
                          [&](const Expr& t) { return multiply(product, t + Expr::index(1), row); }));
  }
  made.push_back(
      serial(lowering_, "r", kPartRows, [&](const Expr& r) { return row(Expr::index(count - 1), r); }));
  return Stmt::block(std::move(made));
}

// One block of tiles. Rows of the block before are spread among the products, and so are lines of the next keys or values
// that are asked for: all blocks of a product share them.
Stmt PartTiles::multiply(const Product& product, const Expr& block, const Row& row) {
  const Expr down = product.down(block) * Expr::index(kPartAcross),
             across = product.along(block) * Expr::index(kPartAcross), zero = Expr::index(0);
  auto sum = [&](std::int64_t u, std::int64_t v) {
    return Operand{sum_, {Expr::index(u), Expr::index(v), zero, zero}, {}};
  };
  auto side = [&](kir::BufferId buffer, std::int64_t u) {
    return Operand{buffer, {Expr::index(u), zero, zero}, {}};
  };
  auto panels = [&](const Expr& next, std::initializer_list<Expr> inside) {
    Substitution bound = product.bound;
    bound[blocks_.block.index] = bound.at(blocks_.block.index) + next;
    std::vector<Expr> index;
    for (const Expr& one : product.right->place) index.push_back(lowering_.at(one, bound));
    index.insert(index.end(), inside);
    return Operand{lowering_.placed(product.right->target), std::move(index), {}};
  };
  const std::int64_t blocks = product.across * (product.queries.count / kPartRows);
  const std::int64_t all_lines = product.across * kPartAcross * product.steps * kFloatParts * kTilePairs;
  const std::int64_t lines = (all_lines + blocks * product.steps - 1) / (blocks * product.steps),
                     rows = kPartRows / product.steps;  // for one step

  std::vector<Stmt> made;
  each([&](std::int64_t u, std::int64_t v) { made.push_back(Stmt::call(Intrinsic::TileZero, {sum(u, v)})); });
  made.push_back(serial(lowering_, "s", product.steps, [&](const Expr& step) {
    std::vector<Stmt> body;
    auto load = [&](Operand tile, Operand from) {
      body.push_back(Stmt::call(Intrinsic::TileLoad,
                                {std::move(tile), std::move(from), number(kTileRows), number(kTileDepth)}));
    };
    auto ask = [&](std::int64_t line) {
      const Expr turn = block * Expr::index(product.steps) + step;
      const Expr own = turn * Expr::index(lines) + Expr::index(line);
      body.push_back(
          Stmt::call(Intrinsic::PrefetchL2, {panels(Expr::index(1), {zero, zero, zero, own, zero})}));
    };
    std::int64_t done = 0;
    PartProduct before{-1, -1};
    for (const PartProduct& one : kPartProducts) {
      const Expr left = Expr::index(one.left), right = Expr::index(one.right);
      for (std::int64_t u = 0; u < kPartAcross && one.left != before.left; ++u)
        load(side(left_, u), {product.left, {down + Expr::index(u), step, left, zero, zero}, {}});
      for (std::int64_t v = 0; v < kPartAcross && one.right != before.right; ++v)
        load(side(right_, v), panels(zero, {across + Expr::index(v), step, right, zero, zero}));
      before = one;
      each([&](std::int64_t u, std::int64_t v) {
        body.push_back(Stmt::call(Intrinsic::TileMultiplyBf16, {sum(u, v), side(left_, u), side(right_, v)}));
        auto spread = [&](std::int64_t count, const std::function<void(std::int64_t)>& action) {
          for (std::int64_t i = done * count / kStepProducts; i < (done + 1) * count / kStepProducts; ++i)
            action(i);
        };
        spread(lines, ask);
        spread(row ? rows : 0, [&](std::int64_t r) {
          body.push_back(row(block - Expr::index(1), step * Expr::index(rows) + Expr::index(r)));
        });
        ++done;
      });
    }
    return Stmt::block(std::move(body));
  }));
  const Expr slot = mod(block, Expr::index(kPartSlots));
  each([&](std::int64_t u, std::int64_t v) {
    const Operand to{sums_, {slot, Expr::index(u * kTileRows), Expr::index(v * kTileColumns)}, {}};
    made.push_back(
        Stmt::call(Intrinsic::TileStore, {to, sum(u, v), number(kTileRows), number(kTileColumns)}));
  });
  return Stmt::block(std::move(made));
}

Expr PartTiles::sum(const Expr& block, const Expr& row, const Expr& column) const {
  return Expr::load(sums_, DType::F32, {mod(block, Expr::index(kPartSlots)), row, column});
}
Substitution PartTiles::at_row(const Product& product, const Expr& block, const Expr& row) const {
  Substitution at = product.bound;
  at[blocks_.query.index] = product.queries.first + product.down(block) * Expr::index(kPartRows) + row;
  return at;
}

// Sums go where the stage stores them, finished.
PartTiles::Row PartTiles::finished(const Product& product, const Stage& stage, VarId column) {
  return [this, &product, &stage, column](const Expr& block, const Expr& row) {
    Substitution at = at_row(product, block, row);
    std::vector<Stmt> made;
    for (std::int64_t side = 0; side < kPartAcross; ++side) {
      made.push_back(over_lanes(lowering_, [&](const Expr& lane) {
        const Expr within = Expr::index(side * kTileColumns) + lane;
        at[column.index] = product.along(block) * Expr::index(kPartColumns) + within;
        return lowering_.store(stage, at, lowering_.body(stage.finish, at, sum(block, row, within)));
      }));
    }
    return Stmt::block(std::move(made));
  };
}

PartTiles::Product PartTiles::of_scores(const Substitution& bound, const Queries& queries) const {
  const KeyBlockParts& parts = *blocks_.parts;
  return {queries_, &parts.keys, parts.depth_steps, parts.key_steps, queries, bound};
}

Stmt PartTiles::scores(const Substitution& bound, const Queries& queries) {
  const Product product = of_scores(bound, queries);
  return over_blocks(product, finished(product, blocks_.scores, blocks_.parts->key));
}

Stmt PartTiles::weights(const Substitution& bound, const Queries& queries) {
  const Product product = of_scores(bound, queries);
  return over_blocks(product, [&](const Expr& block, const Expr& row) {
    Substitution at = at_row(product, block, row);
    Stmt made = over_lanes(lowering_, [&](const Expr& lane) {
      std::vector<Stmt> body;
      Expr together;
      for (std::int64_t side = 0; side < kPartAcross; ++side) {
        const Expr within = Expr::index(side * kTileColumns) + lane;
        at[blocks_.parts->key.index] = product.along(block) * Expr::index(kPartColumns) + within;
        body.push_back(keep(side, lane, lowering_.body(blocks_.weights.finish, at, sum(block, row, within))));
        const Expr kept = Expr::load(pair_, DType::F32, {Expr::index(side), lane});
        together = together.defined() ? together + kept : kept;
      }
      at[blocks_.lane.index] = lane;
      body.push_back(
          lowering_.store(blocks_.summed, at, lowering_.load_target(blocks_.summed, at) + together));
      return Stmt::block(std::move(body));
    });
    const Expr rows = Expr::index(kTileRows),
               tile = product.down(block) * Expr::index(kPartAcross) + floor_div(row, rows);
    return Stmt::block(
        {std::move(made), store_parts(weights_, {tile, product.along(block)}, mod(row, rows))});
  });
}

Stmt PartTiles::weighted(const Substitution& bound, const Queries& queries) {
  const KeyBlockParts& parts = *blocks_.parts;
  const Product product{weights_, &parts.values, parts.key_steps, parts.column_steps, queries, bound};
  return over_blocks(product, finished(product, parts.result, parts.column));
}

// ---- parts

Stmt PartTiles::keep(std::int64_t side, const Expr& lane, Lowering::Body value) {
  value.checks.push_back(Stmt::store(pair_, {Expr::index(side), lane}, value.value));
  return Stmt::block(std::move(value.checks));
}

// Of what is kept; `place` is of a tile.
Stmt PartTiles::store_parts(kir::BufferId target, std::vector<Expr> place, const Expr& row) {
  std::vector<Operand> operands;
  place.insert(place.end(), {Expr::index(0), row, Expr::index(0)});
  for (std::int64_t part = 0; part < kFloatParts; ++part) {
    place[place.size() - 3] = Expr::index(part);
    operands.push_back({target, place, {}});
  }
  for (std::int64_t side = 0; side < kPartAcross; ++side)
    operands.push_back({pair_, {Expr::index(side), Expr::index(0)}, {}});
  return Stmt::call(Intrinsic::SplitBf16x3, std::move(operands));
}

std::vector<Stmt> PartTiles::pack() { return {pack(blocks_.parts->keys), pack(blocks_.parts->values)}; }

Stmt PartTiles::pack(const PartPanels& panels) {
  if (!lowering_.is_placed(panels.target)) lowering_.place(panels.target, Scope::Workspace);
  const kir::BufferId target = lowering_.placed(panels.target);
  auto extent = [&](VarId loop) { return lowering_.formula().variable(loop).extent; };
  std::vector<VarId> grid;
  Substitution bound;
  std::vector<Expr> place;
  auto over = [&](VarId loop) {
    grid.push_back(lowering_.loop("r", extent(loop)));
    place.push_back(Expr::variable(grid.back()));
    bound[loop.index] = place.back();
  };
  for (VarId loop : panels.outer) over(loop);
  over(panels.tile);
  Stmt body = serial(lowering_, "s", extent(panels.step), [&](const Expr& step) {
    bound[panels.step.index] = step;
    return serial(lowering_, "k", extent(panels.line), [&](const Expr& line) {
      bound[panels.line.index] = line;
      Stmt kept = over_lanes(lowering_, [&](const Expr& lane) {
        bound[panels.lane.index] = lane;
        return Stmt::block({keep(0, lane, lowering_.body(panels.low, bound)),
                            keep(1, lane, lowering_.body(panels.high, bound))});
      });
      std::vector<Expr> at = place;
      at.push_back(step);
      return Stmt::block({std::move(kept), store_parts(target, std::move(at), line)});
    });
  });
  for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop)
    body = Stmt::loop(LoopKind::Grid, *loop, std::move(body));
  return body;
}

// Rows of a factor along one loop, 32 elements at a time: element j stands beside j + 16.
Stmt PartTiles::split(const Expr& factor, VarId along, kir::BufferId target, std::int64_t steps,
                      const Substitution& bound, const Queries& queries) {
  return serial(lowering_, "t", queries.count / kTileRows, [&](const Expr& tile) {
    return serial(lowering_, "r", kTileRows, [&](const Expr& row) {
      return serial(lowering_, "s", steps, [&](const Expr& step) {
        Substitution at = bound;
        at[blocks_.query.index] = queries.first + tile * Expr::index(kTileRows) + row;
        Stmt kept = over_lanes(lowering_, [&](const Expr& lane) {
          std::vector<Stmt> made;
          for (std::int64_t side = 0; side < kPartAcross; ++side) {
            at[along.index] = step * Expr::index(kTileDepth) + Expr::index(side * kTilePairs) + lane;
            made.push_back(keep(side, lane, lowering_.body(factor, at)));
          }
          return Stmt::block(std::move(made));
        });
        return Stmt::block({std::move(kept), store_parts(target, {tile, step}, row)});
      });
    });
  });
}

Stmt PartTiles::split_queries(const Substitution& bound, const Queries& queries) {
  const KeyBlockParts& parts = *blocks_.parts;
  return split(parts.query, parts.depth, queries_, parts.depth_steps, bound, queries);
}
Stmt PartTiles::split_weights(const Substitution& bound, const Queries& queries) {
  const KeyBlockParts& parts = *blocks_.parts;
  return split(parts.weight, parts.key, weights_, parts.key_steps, bound, queries);
}

}  // namespace xyntra
