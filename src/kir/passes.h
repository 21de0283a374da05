// Kernel to kernel: the same results, the same order of arithmetic, less to do.
#pragma once

#include "kir/kernel.h"

namespace xyntra::kir {

// Index arithmetic in its shortest form, from the ranges of the loops:
//   x[floordiv(i * 64 + j, 64), mod(i * 64 + j, 64)]   to   x[i, j]      where j < 64
//   if i * 16 + l < 64 { … }                           to   …            where i < 4 and l < 16
//   for i < 1 { … i … }                                to   … 0 …
// Conditions and checks that are known to hold go, and so does what can never run.
Kernel simplify(const Kernel& kernel);

// Unrolled loops of at most `most` iterations written out:
//   unrolled u < 2 { r[u] = 0 }   to   r[0] = 0;  r[1] = 0
Kernel unroll(const Kernel& kernel, std::int64_t most = 64);

// What is invariant in a loop, before it:
//   for j < n { if i < m { … } }         to   if i < m { for j < n { … } }
//   for j < 4 { r[0] = x[i]; … }         to   r[0] = x[i];  for j < 4 { … }
// A store moves when the loop has an iteration for certain and nothing else in it writes the same buffer.
Kernel hoist(const Kernel& kernel);

// Loads and stores that are not shown to be in bounds, under the condition that they are; what is read in any case is checked, too:
//   y[i] = x[n * i]   to   check x.0 : n * i;  y[i] = select(n * i >= 0 & n * i < m, x[n * i], 0)
// For kernels whose sizes are so related that no proof is found. A kernel that is wrong otherwise stays as it is.
Kernel guard(const Kernel& kernel);

}  // namespace xyntra::kir
