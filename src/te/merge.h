// Loops over neighbouring axes as one loop, where every access walks them as one: the opposite of te/split.h.
//
//   y[i, j] = x[i, j] + b[j]    for i < 4, j < 8, k < 5     x[i, j, k], y[i, j, k] and no other use of j, k
//   becomes  y[i, m] = x[i, m]  for i < 4, m < 40
//
// Buffers get fewer dimensions; they are row-major, so not a byte of them moves. Loops grow long, and a kernel has
// fewer of them to count.
#pragma once

#include "te/formula.h"

namespace xyntra::te {

void merge_axes(Formula& formula);

}  // namespace xyntra::te
