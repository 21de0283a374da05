// Lines of b, as register tiles read them (lower_contraction.h): vectors of one turn of the sum.
//
// Where lines take arithmetic (8 bits in memory, which are widened and scaled), the tiles of a work item share it: each pass
// over the sum makes a panel of its lines first, and its tiles read that. So it is where lines lie a feature map apart: as they
// are, they would share few places of the L1 cache, and every tile would fetch them again.
#pragma once

#include "lower/cpu/contraction/sum_walk.h"

namespace xyntra {

// The lines that one pass reads, made before its tiles read them; the pass knows the panel from then on.
kir::Stmt make_panel(const TiledContraction& contraction, const te::Substitution& bound,
                     const ColumnRun& across, SumPass& pass);

// A line, vector by vector, from the panel of the pass where it has one; zeros beyond the last column.
using StoreLane = std::function<kir::Stmt(const te::Expr& vector, const te::Expr& lane, te::Expr value)>;
kir::Stmt line_of(const TiledContraction& contraction, const te::Substitution& bound, const Walk& walk,
                  const ColumnRun& across, const SumPass* pass, const StoreLane& store);

// The lines of the next work item's panel, at a turn of the walk, which is bound: each of the first tiles asks for some of them.
std::vector<kir::Stmt> ask_for_next_panel(const TiledContraction& contraction, const te::Substitution& bound,
                                          ColumnRun across, const Among& among);

}  // namespace xyntra
