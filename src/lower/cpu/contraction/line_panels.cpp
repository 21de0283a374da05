#include "lower/cpu/contraction/line_panels.h"

namespace xyntra {

using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

Stmt make_panel(const TiledContraction& contraction, const Substitution& bound, const ColumnRun& across,
                SumPass& pass) {
  std::int64_t lines = pass.depth->factor;
  for (VarId axis : pass.depth->inner) lines *= contraction.extent(axis).constant();
  pass.panel = contraction.lowering.scratch("w", contraction.stage.body.dtype(),
                                            {lines, across.vectors, across.width}, kir::Scope::Shared);
  return along_sum(
      contraction, bound, &pass, false, TileSums(), [&](const Substitution& inner, const Walk& walk, bool) {
        return line_of(contraction, inner, walk, across, nullptr,
                       [&](const Expr& vector, const Expr& lane, Expr value) {
                         return Stmt::store(pass.panel, {walk.turn, vector, lane}, std::move(value));
                       });
      });
}

std::vector<Stmt> ask_for_next_panel(const TiledContraction& contraction, const Substitution& bound,
                                     ColumnRun across, const Among& among) {
  const Expr& lines = contraction.roles.lane_factor;
  const bool several = among.number.defined() && among.count.is_constant();
  if (!several || contraction.tiling.second.valid()) return {};
  across.base = across.base + Expr::index(across.width * across.vectors);
  const std::int64_t tiles = among.count.constant();
  const std::int64_t each = (across.vectors + tiles - 1) / tiles;  // vectors of a line that a tile asks for
  std::vector<Stmt> made;
  for (std::int64_t v = 0; v < each; ++v) {
    const Substitution at = contraction.tiling.at_column(
        across, bound, among.number * Expr::index(each) + Expr::index(v), Expr::index(0));
    kir::Operand place{contraction.lowering.placed(lines->buffer), {}, {}};
    for (const Expr& one : te::index_of(*lines)) place.index.push_back(contraction.lowering.at(one, at));
    made.push_back(Stmt::call(kir::Intrinsic::Prefetch, {std::move(place)}));
  }
  if (tiles * each == across.vectors) return made;
  return {Stmt::branch(among.number < Expr::index(across.vectors / each), Stmt::block(std::move(made)))};
}

Stmt line_of(const TiledContraction& contraction, const Substitution& bound, const Walk& walk,
             const ColumnRun& across, const SumPass* pass, const StoreLane& store) {
  const DType dtype = contraction.stage.body.dtype();
  return contraction.unrolled("v", across.vectors, [&](const Expr& vector) {
    return contraction.lanes(across.width, [&](const Expr& lane) {
      if (pass != nullptr && pass->panel.valid())
        return store(vector, lane, Expr::load(pass->panel, dtype, {walk.turn, vector, lane}));
      Lowering::Body value = contraction.lowering.body(
          contraction.roles.lane_factor, contraction.tiling.at_column(across, bound, vector, lane));
      value.checks.push_back(store(vector, lane, value.value));
      return contraction.where_column(across, vector, lane, Stmt::block(std::move(value.checks)),
                                      store(vector, lane, Expr::number(dtype, 0)));
    });
  });
}

}  // namespace xyntra
