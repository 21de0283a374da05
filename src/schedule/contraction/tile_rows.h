// Which rows of a factor make a tile, and where they lie.
#pragma once

#include "schedule/contraction/tile_form.h"

namespace xyntra {

// The row axis along which tiles of a can be loaded from where it lies, with its dimension and step: the longest, or the one
// asked for. Two axes that move along one dimension, as the rows and columns of a picture with a border do, can be walked as
// one: row m is (m / pitch, m % pitch), and those with m % pitch beyond the inner axis are of the border. Along the last
// dimension rows overlap, as lines of a flattened window do.
struct TileRows {
  te::VarId axis;  // none: there is one row
  std::size_t dimension = 0;
  std::int64_t step = 1;
  te::VarId outer = {};
  std::int64_t pitch = 0;

  Dim count(const te::Formula& formula) const;
  // Row m stands for these turns of the axes.
  void bind(te::Substitution& bound, const te::Expr& m) const;
};
std::optional<TileRows> tile_rows(const AccessAnalysis& analysis, const TileForm& form, te::VarId only = {});

// Blocks of k that lie a multiple of a page apart would share a few sets of the caches: room for some rows more between them.
Dim spread_rows(const Dim& rows);

// Tiles that so many rows take, or as long as so many: one that is alone, or not full, takes longer.
std::int64_t tiles_for(std::int64_t rows);

}  // namespace xyntra
