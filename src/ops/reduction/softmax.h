// Pieces of softmax.
#pragma once

#include "ops/formula_context.h"

namespace xyntra {

// m = max(k) x[k] and s = sum(k) exp(x[k] - m) along one axis; `out` runs over x, `rows` over m and s.
struct SoftmaxRows {
  te::Axes out;
  te::Axes rows;
  te::Buffer largest;
  te::Buffer sum;
};
SoftmaxRows softmax_rows(FormulaContext& c, const te::Buffer& x, std::size_t axis);

}  // namespace xyntra
