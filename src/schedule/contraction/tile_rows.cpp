#include "schedule/contraction/tile_rows.h"

#include <algorithm>

namespace xyntra {

using te::Expr;
using te::ExprOp;
using te::Formula;
using te::Substitution;
using te::VarId;

Dim spread_rows(const Dim& rows) {
  constexpr std::int64_t kPage = 64;  // rows
  return rows.is_constant() && rows.constant() % kPage == 0 ? rows + 2 * kTileRows : rows;
}

std::int64_t tiles_for(std::int64_t rows) {
  if (rows < kTileRows) return 3;
  return (rows + kTileRows - 1) / kTileRows + (rows <= kTileRows ? 1 : 0);
}

namespace {

// With the axis that moves along the same dimension by whole lines, where that takes fewer tiles.
TileRows walked_as_one(const AccessAnalysis& analysis, const TileForm& form, TileRows rows) {
  auto extent = [&](VarId axis) { return analysis.formula().variable(axis).extent; };
  const std::vector<Expr> index = te::index_of(*form.a);
  const te::LinearIndex linear = analysis.algebra().linear(index[rows.dimension]);
  for (VarId other : form.rows) {
    const auto* term = other == rows.axis ? nullptr : linear.find(other);
    if (term == nullptr || !term->coefficient.is_constant()) continue;
    const Dim lines = extent(other), line = extent(rows.axis);
    if (!lines.is_constant() || !line.is_constant()) continue;
    const std::int64_t pitch = term->coefficient.constant() / rows.step;
    bool elsewhere = pitch * rows.step != term->coefficient.constant() || pitch < line.constant();
    for (std::size_t d = 0; d < index.size(); ++d)
      elsewhere = elsewhere || (d != rows.dimension && te::variables_of(index[d]).count(other) != 0);
    const std::int64_t all = (lines.constant() - 1) * pitch + line.constant();
    if (elsewhere || all < kTileRows || tiles_for(all) > tiles_for(line.constant()) * lines.constant())
      continue;
    rows.outer = other;
    rows.pitch = pitch;
    return rows;
  }
  return rows;
}

}  // namespace

std::optional<TileRows> tile_rows(const AccessAnalysis& analysis, const TileForm& form, VarId only) {
  if (form.a->op != ExprOp::Load) return std::nullopt;
  const std::vector<Expr> index = te::index_of(*form.a);
  const Dim& depth = analysis.formula().variable(form.k).extent;
  auto whole = analysis.stride(form.a->buffer, index, form.k);
  const bool even = depth.is_constant() && depth.constant() % form.depth() == 0;
  if (whole ? !whole->is(1) : !even) return std::nullopt;
  if (!analysis.contiguous_in_blocks(form.a->buffer, index, form.k, form.depth())) return std::nullopt;
  const Shape& shape = analysis.formula().buffer(form.a->buffer).shape;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const bool whole_tiles = d + 1 == index.size() && te::same(index[d], Expr::variable(form.k)) &&
                             shape[d] == ceil_div(depth, form.depth()) * form.depth();
    if (!whole_tiles && !analysis.algebra().within(index[d], 0, shape[d])) return std::nullopt;
  }
  const std::set<VarId> used = te::variables_of(form.a);
  const bool alone = std::none_of(form.rows.begin(), form.rows.end(), [&](VarId axis) {
    return used.count(axis) != 0 || !analysis.formula().variable(axis).extent.is(1);
  });
  if (alone && !only.valid()) return TileRows{{}, index.size() - 1, 1};
  std::optional<TileRows> best;
  for (VarId axis : form.rows) {
    if (only.valid() && axis != only) continue;
    std::optional<TileRows> found;
    bool good = true;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (te::variables_of(index[d]).count(axis) == 0) continue;
      const te::LinearIndex linear = analysis.algebra().linear(index[d]);
      const auto* term = linear.find(axis);
      const bool counted =
          term != nullptr && term->coefficient.is_constant() && term->coefficient.constant() > 0;
      // Along the last dimension k moves too: rows that overlap, as lines of a window do.
      const bool apart = d + 1 < index.size() || te::variables_of(index[d]).count(form.k) != 0;
      good = good && !found && counted && apart;
      for (const auto& other : linear.terms)
        good = good && (other.atom->op == ExprOp::Var || te::variables_of(other.atom).count(axis) == 0);
      if (counted) found = TileRows{axis, d, term->coefficient.constant()};
    }
    if (!good || !found) continue;
    auto turns = [&](VarId loop) { return analysis.size(analysis.formula().variable(loop).extent); };
    if (!best || turns(axis) >= turns(best->axis)) best = found;  // of equals the innermost
  }
  return best && !only.valid() ? walked_as_one(analysis, form, *best) : best;
}

Dim TileRows::count(const Formula& formula) const {
  if (!axis.valid()) return 1;
  const Dim& line = formula.variable(axis).extent;
  return outer.valid() ? (formula.variable(outer).extent - 1) * pitch + line : line;
}

void TileRows::bind(Substitution& bound, const Expr& m) const {
  if (!axis.valid()) return;
  if (!outer.valid()) {
    bound[axis.index] = m;
    return;
  }
  bound[outer.index] = floor_div(m, Expr::index(pitch));
  bound[axis.index] = mod(m, Expr::index(pitch));
}

}  // namespace xyntra
