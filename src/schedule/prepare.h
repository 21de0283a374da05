// What a main loop reads, made ready for it: a formula becomes another one with more stages, whose main loop reads plain
// elements.
//
//   padded pictures    sum(ky, kx) load_or(0, x[y + ky - 1, …]) * w     p = x with a border; sum(ky, kx) p[y + ky, …] * w
//   turned operands    sum(d) q[i, d] * k[j, d]                         t[d, j] = k[j, d]; sum(d) q[i, d] * t[d, j]
//   prologues          sum(k) norm(x[m, k]) * w[k, n]                   p[m, k] = norm(x[m, k]); sum(k) p[m, k] * w[k, n]
//
// Each element is made once instead of once for every element of the result that reads it.
#pragma once

#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

te::Formula prepare_main_loop(const te::Formula& formula, const Target& target, const SymbolBindings& nominal,
                              bool turn_operands);

}  // namespace xyntra
