// Rows of a contraction that lie some steps apart, made contiguous first.
//
//   y[n, p, q] = sum(k) x[k, 2 p, 2 q] * w[k, n]           g[k, m] = x[k, 2 (m / Q), 2 (m % Q)];  y[n, m] = sum(k) g[k, m] * w[k, n]
//
// Every column of the result reads each row again. Rows two lines of the cache apart use half of its places, and push out
// what else is read; contiguous they use all, and lines of rows become one axis, which tiles cut as it suits them.
#pragma once

#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// The formula itself where it has no such rows, or few columns read them.
te::Formula gather_steps(const te::Formula& formula, const Target& target, const SymbolBindings& nominal);

}  // namespace xyntra
