// round-matmuls: what `--precision bf16` means, and `f16`. Factors of products of f32 matrices are rounded to bf16; the sums stay f32.
//
//   MatMul(x, w)            ->  MatMul(f32(bf16(x)), f32(bf16(w)))          Gemm and Conv alike
//   MatMul(x, Transpose(w)) ->  MatMul(f32(bf16(x)), f32(Transpose(bf16(w))))
//   MatMul(x * c, w)        ->  MatMul(f32(bf16(x)), f32(bf16(w))) * c      for a number c
//   Split(y), parts rounded ->  Split(bf16(y))                              so for all that changes indices alone
//   MatMul(Gelu(x), w)      ->  MatMul(f32(bf16(Gelu{short}(x))), …)        no more digits than bf16 leaves
//
// It is written into the graph, so that every backend means the same; constants are rounded at once. A matrix unit takes
// the products from there (lower/cpu/tiles/lower_tiles.h), and where there is none they are computed in f32.
#pragma once

#include <set>

#include "ir/graph.h"
#include "plan/plan.h"
#include "rewrite/normalize/fold.h"

namespace xyntra {

struct RoundedProducts {
  std::vector<CertificateLine> certificate;
  std::vector<std::string> copies;  // names of values that should be made by a launch of their own
};
// The graph has types; those of what is added are left to infer_types. Constants that are rounded go to the log. Convolutions
// that were flattened (passes/flatten_windows.h) sum along lines of their window.
Result<RoundedProducts> round_products(Graph& graph, DType to, const std::set<NodeId>& flattened,
                                       FoldLog& folded);

}  // namespace xyntra
