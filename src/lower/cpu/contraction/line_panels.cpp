#include "lower/cpu/contraction/line_panels.h"

#include "te/compose/compose.h"

namespace xyntra {

using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

bool makes_panels(const TiledContraction& contraction) {
  return te::work_of(contraction.roles.lane_factor) > 0 && !contraction.roles.lane_in_rows &&
         !contraction.border;
}

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
