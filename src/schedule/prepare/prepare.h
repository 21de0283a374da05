// What a main loop reads, made ready for it: a formula becomes another one with more stages, whose main loop reads plain
// elements.
//
//   padded pictures    sum(ky, kx) load_or(0, x[y + ky - 1, …]) * w     p = x with a border; sum(ky, kx) p[y + ky, …] * w
//   turned operands    sum(d) q[i, d] * k[j, d]                         t[d, j] = k[j, d]; sum(d) q[i, d] * t[d, j]
//   prologues          sum(k) norm(x[m, k]) * w[k, n]                   p[m, k] = norm(x[m, k]); sum(k) p[m, k] * w[k, n]
//
// Each element is made once instead of once for every element of the result that reads it.
#pragma once

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// Heavy parts that two stages compute alike, made once: the exponents that a softmax adds up and then divides.
//   s = sum(k) exp(x[k] - m); y[k] = exp(x[k] - m) / s         e[k] = exp(x[k] - m); s = sum(k) e[k]; y[k] = e[k] / s
// `most`: not where a row has more of them, as far as that is known. `sums`: also what is read twice, and where sums read it; for those
// who keep a row in registers.
struct Sharing {
  std::int64_t most = INT64_MAX;
  bool sums = false;
};
te::Formula share_heavy_parts(const te::Formula& formula, const Sharing& sharing = {});

// Weights that are divided by their sum and then summed: divided at the end, once for each result.
//   y[i, k] = e[i, k] / s[i]; o[i, n] = sum(k) y[i, k] * v[k, n]        o[i, n] = (sum(k) e[i, k] * v[k, n]) / s[i]
// It rounds in another order. Roundings of the weights on the way stay: they are then of e. So does what replaces NaN by zero
// (te/masked_rows.h), for those who take such weights.
enum class GuardedWeights : std::uint8_t { Stay, Divided };
te::Formula divide_at_the_end(const te::Formula& formula, GuardedWeights guarded = GuardedWeights::Stay);

// Windows of what is computed element by element: each element made once, though several windows take it in.
te::Formula pack_windows(const te::Formula& formula, const SymbolBindings& nominal);

te::Formula prepare_main_loop(const te::Formula& formula, const Schedule& schedule, const Target& target,
                              const SymbolBindings& nominal, bool turn_operands);

}  // namespace xyntra
