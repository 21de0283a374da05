// What shape of work a stage is: the question that fusion and schedules ask first. The answer comes from the
// formula alone, never from the op's name.
//
//   y[i, j] = x[j, i]                              movement: values move, nothing is computed
//   y[i] = exp(x[i])                               pointwise
//   y[i, j] = table[ids[i], j]                     gather: an index is data
//   m[i] = max(k) x[i, k]                          row reduction
//   y[i] = sum(k) x[i + k] * w[k]                  window: an index mixes an output and a reduction axis
//   y[i, j] = sum(k) a[i, k] * b[k, j]             contraction: a sum of products of different buffers
#pragma once

#include "te/formula.h"

namespace xyntra::te {

// In order of weight: a formula is what its weightiest stage is.
enum class WorkShape : std::uint8_t {
  Movement,
  Pointwise,
  Gather,
  RowReduction,
  Window,
  Contraction,
  Scatter,
  Scan
};

const char* name_of(WorkShape shape);  // "row reduction"

WorkShape classify(const Formula& formula, const Stage& stage);
WorkShape classify(const Formula& formula);

}  // namespace xyntra::te
