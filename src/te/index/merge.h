// Loops over neighbouring axes as one loop, where every access walks them as one: the opposite of te/index/split.h.
//
//   y[i, j] = x[i, j] + b[j]    for i < 4, j < 8, k < 5     x[i, j, k], y[i, j, k] and no other use of j, k
//   becomes  y[i, m] = x[i, m]  for i < 4, m < 40
//
// A dimension that loops walk as digits, x[i * 4 + j] for j < 4, counts as two of them.
// Where short rows of a product are the loops, what else reads by one of them alone does not keep them apart:
//
//   y[b, i, j] = sum over k of x[b, i, k] * w[k, j], plus c[i]    becomes  y[m, j] = sum over k of x[m, k] * w[k, j], plus c[m % 2]
//
// Buffers get fewer dimensions; they are row-major, so not a byte of them moves. Loops grow long, and a kernel has
// fewer of them to count.
#pragma once

#include "te/formula.h"

namespace xyntra::te {

// Whether a temporary's dimensions become one only where the loops that write it do; stages that share rows need that.
enum class Temporaries : std::uint8_t { AsTheirLoops, ByTheirOwnLoops };

void merge_axes(Formula& formula, Temporaries temporaries = Temporaries::AsTheirLoops);

}  // namespace xyntra::te
