// merge-matmuls: matmuls of one operand with several constant matrices become one matmul with all of them concatenated
// (horizontal fusion), cut up again by a Split. Queries, keys and values of attention are such matmuls, and so are gate and up.
//
//   MatMul(x, a), MatMul(x, b)                  ->  Split(MatMul(x, [a b]))
//   MatMul(x, a) + p, MatMul(x, b) + q          ->  Split(MatMul(x, [a b]) + [p q])
//   MatMul(x, Transpose(a)), …                  ->  Split(MatMul(x, Transpose([a; b])))
//
// A rule cannot say this, since it has several roots. The kernel reads x once, and the matrix units get wider work.
#pragma once

#include <span>
#include <vector>

#include "rewrite/normalize/normalize.h"
#include "rewrite/rewrite.h"

namespace xyntra {

struct Merged {
  std::vector<DraftValue> outputs;  // in the draft of the normalizer
  std::vector<RuleUse> uses;
};

// What computes `outputs` of `from`, with matmuls merged, added by `to`, whose draft has the same inputs.
Result<Merged> merge_matmuls(const Draft& from, std::span<const DraftValue> outputs, Normalizer& to,
                             Draft& into);

}  // namespace xyntra
