// Lines of a contraction's weights, asked for before a tile needs them.
//
// Weights come from memory while the first of the tiles that share their lines waits for them. All of these tiles together
// therefore ask, bit by bit, for the lines that follow those they walk along: those of the next pass over the sum, or of
// the next columns. Where one tile has all rows, it asks for lines some turns ahead.
#pragma once

#include "lower/lowering.h"
#include "schedule/contraction/contraction_roles.h"

namespace xyntra {

// Which of the tiles that read the same lines a tile is, and of how many.
struct Among {
  te::Expr number;
  Dim count = 1;
  bool may_be_alone = false;  // where the program is run with few rows, nobody has read the lines before
};

// A walk along the sum, or along the part of it that one pass takes.
struct Walk {
  te::Substitution first;  // where it starts
  te::VarId innermost;  // axis
  te::Expr turn = te::Expr::index(0);  // counted from the start
  Dim turns = 1;
  std::int64_t chain = 0;  // of the partial sums of a small tile, the one that is added to
};

// The columns of a tile: vectors along the lanes, or along another axis.
struct TileColumns {
  te::VarId lane, other;
  te::Expr first_lane, first_other;
  std::int64_t width = 1, vectors = 1;
};

// The one load along the sum, which is not one of a scale for each column; null where there are several, or where lines that do
// not come from memory are not wanted.
const te::ExprNode* lines_of(const Lowering& lowering, const ContractionRoles& roles, bool from_anywhere);

// From where a tile's walk starts to the lines it asks for.
struct Distance {
  std::int64_t turns = 0;
  bool panels =
      false;  // so many turns of all panels: vectors of a line may stand in panels one behind the other
};
std::vector<kir::Stmt> ask_for_next_lines(Lowering& lowering, const te::ExprNode& weights,
                                          const TileColumns& columns, const te::Substitution& bound,
                                          const Among& among, const Walk& walk, const Distance& distance);

// `bound` is where the tile is now.
std::vector<kir::Stmt> ask_for_lines_soon(Lowering& lowering, const te::ExprNode& weights,
                                          const TileColumns& columns, const te::Substitution& bound,
                                          const Walk& walk);

// What an epilogue reads from memory, element by element along `lane` (a mask), at some places: with long chains of arithmetic in
// it the processor would fill up with what waits.
std::vector<kir::Stmt> ask_for_operands(Lowering& lowering, const te::Expr& finish, te::VarId lane,
                                        const std::vector<te::Substitution>& places);

}  // namespace xyntra
