// integer-products: products of quantized matrices in the form that units for bytes take (schedule/contraction/tile_form.h).
//
//   MatMulInteger(a, b, p, q)       ->  MatMulInteger(a, b) - p (columns(b) - k q) - q rows(a)
//   QLinearMatMul(a, …, b, …)       ->  Cast(Clip(Round(Cast(MatMulInteger(a, b, p, q)) * scale) + zero point))
//   MatMulIntegerToFloat(a, b, …)   ->  Cast(MatMulInteger(a, b, p, q)) * scale + bias
//   DynamicQuantizeMatMul(x, b, …)  ->  the same of DynamicQuantizeLinear(x)
//   ConvInteger(x, w, p)            ->  ConvInteger(Pad(x, p), w) - p filters(w)
//   QLinearConv(x, …, w, …)         ->  the same, scaled and rounded as QLinearMatMul is; of few channels, flattened
//
// Zero points leave the sum: (a - p) (b - q) summed along k, with columns(b) the sums of b along k and rows(a) those of a. In i32 that
// is exact, whatever wraps. Sums of weights are constants. A unit that wants other signs gets them by the same algebra:
// a - p = (a + 128) - (p + 128), where a + 128 is a u8.
#pragma once

#include "ir/graph.h"
#include "plan/plan.h"
#include "rewrite/normalize/fold.h"
#include "target/target.h"

namespace xyntra {

struct IntegerProducts {
  std::vector<CertificateLine> certificate;
  std::vector<std::string> copies;  // names of values that should be made by a launch of their own
};
// The graph has types; those of what is added are left to infer_types. Constants that are computed go to the log. Nothing is
// changed on a target without a unit for bytes.
Result<IntegerProducts> integer_products(Graph& graph, const Target& target, FoldLog& folded);

}  // namespace xyntra
