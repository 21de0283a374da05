#include "lower/cpu/tiles/lower_part_products.h"

#include "lower/nested_loops.h"
#include "schedule/contraction/float_parts.h"

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

constexpr std::int64_t kSides = 2;  // neighbours in a row of a tile

}  // namespace

Stmt lower_split(Lowering& lowering, const PartProducts& products) {
  const te::Formula& formula = lowering.formula();
  const Stage& split = formula.stages[products.split];
  const kir::BufferId target = lowering.placed(split.target);
  const kir::BufferId pair = lowering.scratch("pair", DType::F32, {kSides, kTilePairs}, Scope::Register);
  Substitution bound;
  std::vector<VarId> grid;
  std::vector<Expr> rows;
  const Dim last = formula.variable(products.rows.back()).extent;
  for (VarId axis : products.rows) {
    const bool is_last = axis == products.rows.back();
    const Dim turns = is_last ? ceil_div(last, kTileRows) : formula.variable(axis).extent;
    grid.push_back(lowering.loop("m", turns));
    rows.push_back(Expr::variable(grid.back()));
    bound[axis.index] = rows.back();
  }
  const std::int64_t blocks = formula.buffer(split.target).shape[2].constant();
  const VarId stretch = lowering.loop("s", products.stretches), block = lowering.loop("b", blocks),
              row = lowering.loop("r", kTileRows), lane = lowering.loop("l", kTilePairs);
  rows.back() = rows.back() * Expr::index(kTileRows) + Expr::variable(row);
  bound[products.rows.back().index] = rows.back();
  std::vector<Stmt> kept;
  std::vector<Operand> operands;
  for (std::int64_t part = 0; part < kFloatParts; ++part) {
    std::vector<Expr> place{Expr::index(part), Expr::variable(stretch), Expr::variable(block)};
    place.insert(place.end(), rows.begin(), rows.end());
    place.push_back(Expr::index(0));
    operands.push_back({target, std::move(place), {}});
  }
  for (std::int64_t side = 0; side < kSides; ++side) {
    const Expr step = Expr::variable(stretch) * Expr::index(blocks) + Expr::variable(block);
    bound[products.depth.index] =
        step * Expr::index(kTileDepth) + Expr::index(side * kTilePairs) + Expr::variable(lane);
    Lowering::Body value = lowering.body(products.factor, bound);
    value.checks.push_back(Stmt::store(pair, {Expr::index(side), Expr::variable(lane)}, value.value));
    kept.insert(kept.end(), value.checks.begin(), value.checks.end());
    operands.push_back({pair, {Expr::index(side), Expr::index(0)}, {}});
  }
  Stmt body = Stmt::block({Stmt::loop(LoopKind::Vector, lane, Stmt::block(std::move(kept))),
                           Stmt::call(Intrinsic::SplitBf16x3, std::move(operands))});
  const bool whole = last.is_constant() && last.constant() % kTileRows == 0;
  if (!whole) body = Stmt::branch(rows.back() < Expr::size(last), std::move(body));
  for (VarId loop : {row, block, stretch}) body = Stmt::loop(LoopKind::Serial, loop, std::move(body));
  return in_loops(LoopKind::Grid, grid, std::move(body));
}

}  // namespace xyntra
