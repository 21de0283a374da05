// One register tile of a contraction: rows × columns of the result, kept in vector registers while the sum is walked, then
// finished and stored.
#pragma once

#include "lower/cpu/contraction/sum_walk.h"

namespace xyntra {

// All of the sum, then the epilogue; or what one pass does to it. `among`: the tiles that read the same lines.
kir::Stmt register_tile(const TiledContraction& contraction, const te::Substitution& bound,
                        const ColumnRun& across, const RegisterRows& rows, const Among& among = {},
                        const SumPass* pass = nullptr);

}  // namespace xyntra
