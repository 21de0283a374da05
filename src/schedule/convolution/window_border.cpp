#include "schedule/convolution/window_border.h"

#include <algorithm>

namespace xyntra {

using te::Expr;
using te::LinearIndex;
using te::VarId;

namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

}  // namespace

const WindowBorder::Side* WindowBorder::along(VarId turn) const {
  const auto found = std::ranges::find(sides, turn, &Side::turn);
  return found == sides.end() ? nullptr : &*found;
}

const WindowBorder::Side* WindowBorder::across(VarId offset) const {
  const auto found = std::ranges::find(sides, offset, &Side::offset);
  return found == sides.end() ? nullptr : &*found;
}

Expr WindowBorder::inside(const Side& side, const Expr& at) {
  Expr made;
  if (side.first < 0) made = at >= 0;
  if ((side.turns - 1) * side.step + (side.offsets - 1) * side.spread + side.first >= side.extent) {
    const Expr below = at < Expr::index(side.extent);
    made = made.defined() ? made & below : below;
  }
  return made;
}

std::optional<WindowBorder> window_border(const AccessAnalysis& analysis, const te::Stage& stage,
                                          const Expr& element) {
  if (element->op != te::ExprOp::LoadOr || !element->operands[0].is_constant() ||
      element->operands[0]->float_value != 0 || !is_float(element.dtype()))
    return std::nullopt;
  const te::Formula& formula = analysis.formula();
  WindowBorder border;
  border.picture = element->buffer;
  border.index = te::index_of(*element);
  const Shape& shape = formula.buffer(element->buffer).shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (analysis.algebra().within(border.index[d], 0, shape[d])) continue;
    const LinearIndex linear = analysis.algebra().linear(border.index[d]);
    if (linear.terms.size() != 2 || !linear.constant.is_constant() || !shape[d].is_constant())
      return std::nullopt;
    WindowBorder::Side side;
    side.dimension = d;
    side.first = linear.constant.constant();
    side.extent = shape[d].constant();
    for (const LinearIndex::Term& term : linear.terms) {
      if (term.atom->op != te::ExprOp::Var || !term.coefficient.is_constant() ||
          term.coefficient.constant() < 1)
        return std::nullopt;
      const VarId loop = term.atom->var;
      const Dim& extent = formula.variable(loop).extent;
      if (!extent.is_constant()) return std::nullopt;
      const bool offset = std::ranges::find(stage.reduction, loop) != stage.reduction.end();
      (offset ? side.offset : side.turn) = loop;
      (offset ? side.spread : side.step) = term.coefficient.constant();
      (offset ? side.offsets : side.turns) = extent.constant();
    }
    if (!side.turn.valid() || !side.offset.valid() || border.along(side.turn) != nullptr ||
        border.across(side.offset) != nullptr)
      return std::nullopt;
    border.sides.push_back(side);
  }
  return border.sides.empty() ? std::nullopt : std::optional(std::move(border));
}

RowsByOffset rows_inside(const WindowBorder::Side& side, std::int64_t first_row, std::int64_t rows) {
  RowsByOffset made;
  for (std::int64_t offset = 0; offset < side.offsets; ++offset) {
    const std::int64_t at = offset * side.spread + side.first;  // of row 0
    const std::int64_t from = divided_up(-at, side.step), to = divided_up(side.extent - at, side.step);
    const std::int64_t low = std::clamp<std::int64_t>(from - first_row, 0, rows);
    made.push_back({low, std::clamp<std::int64_t>(to - first_row, low, rows)});
  }
  return made;
}

std::vector<TileRun> tile_runs(const WindowBorder::Side& side, std::int64_t tiles, std::int64_t rows) {
  std::vector<TileRun> runs;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    RowsByOffset inside = rows_inside(side, tile * rows, rows);
    if (runs.empty() || runs.back().inside != inside) runs.push_back({tile, 0, std::move(inside)});
    ++runs.back().count;
  }
  return runs;
}

}  // namespace xyntra
