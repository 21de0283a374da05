// Products of f32 matrices with constant weights on tiles of bf16: each number is three bf16 (float_parts.h), and of the products
// of parts the six largest are added up.
//
//   y[m, n] = sum(k) a[m, k] * w[k, n]
//   y[m, n] = sum(k, q) a[m, k] * f32(u[n, q, k])                              weights lie in memory as their parts, exactly
//   t[p, m, k] = part p of a[m, k];  y[m, n] = sum(k, p, q) f32(t[p, m, k]) * f32(u[n, q, k])             p + q < 3
//
// u lies in panels as tiles read them, u[n/16, q, stretch of k, k/32, k%16, n%16*2 + k/16%2]: element j of a row stands beside j + 16, as
// vectors split them (kir::Intrinsic::SplitBf16x3). Sums are as good as those of f32, but what is not finite, or larger than
// 2^100, gives other results, and numbers below 2^-110 lose digits: the schedule is precision-changing, and is taken only where it
// was asked for.
#pragma once

#include "schedule/choose.h"
#include "schedule/contraction/tile_rows.h"
#include "types/tensor.h"

namespace xyntra {

// The operand that holds the weights of the formula's product, and the one of its two dimensions that is summed along.
struct PartWeights {
  int operand = -1;
  std::size_t depth = 0;
};
// Nothing where no product has the form. Weights must be constants: who calls knows.
std::optional<PartWeights> part_weights(const te::Formula& formula);

// The schedule for a product that `choice` would make otherwise; nothing where the target has no tiles, or nothing is gained.
std::optional<Choice> as_parts(const te::Formula& formula, const Choice& choice, const Target& target,
                               const ChooseOptions& options);

// The formula over weights that lie as parts. Unsupported error where it has no such product.
Result<te::Formula> parts_formula(const te::Formula& formula);
// [k, n] or [n, k] to the panels u.
Result<Tensor> weights_in_parts(const Tensor& weights, std::size_t depth);
// Whether all of them are finite, and far from the largest numbers.
bool can_be_split(const Tensor& weights);

// That formula with the other factor in parts, too. A long sum is made in stretches, one stage of products after another: what
// lies between them is added up in memory.
struct PartProducts {
  te::Formula formula;
  std::size_t split = 0;  // the stage that splits; those of products follow
  std::int64_t stretches = 1;
  te::Expr factor;  // what is split, over `rows` and `depth`
  te::VarId depth;
  std::vector<te::VarId> rows;  // of the stage that splits
  te::VarId left, right;  // p and q of the products
};
std::optional<PartProducts> prepare_parts(const te::Formula& formula);

}  // namespace xyntra
