// Dimensions and loops whose places are digits of one number: what a reshape leaves behind. Buffers are row-major, so not a byte of
// them moves.
#pragma once

#include <optional>

#include "te/formula.h"

namespace xyntra::te {

// x[i * 4 + j] for j < 4 becomes x[i, j], where every access of x is such a one; nothing where there is none.
std::optional<Formula> with_split_dimensions(const Formula& formula);

// x[k / 4, k % 4] becomes x[k]; what else reads x[i, j] reads x[i * 4 + j] then.
void join_dimensions(Formula& formula);

// Neighbouring loops of element-wise stages that every access walks as one in memory become one; dimensions stay. With more than one
// lane, accesses may also repeat within them: y[i, j] = x[i, j] + c[j] for j < 4 becomes y[m / 4, m % 4] = x[…] + c[m % 4].
void join_loops(Formula& formula, std::int64_t lanes = 1);

}  // namespace xyntra::te
