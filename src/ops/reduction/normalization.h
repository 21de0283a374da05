// Pieces of normalisations.
#pragma once

#include "ops/formula_context.h"

namespace xyntra {

struct Moments {
  te::Buffer mean;
  te::Buffer variance;  // of the population
};
// Mean and variance over `reduced` for every point of `rows`; x reads the operand in terms of both.
Moments moments(FormulaContext& c, const te::Axes& rows, const te::Axes& reduced, const te::Expr& x);

// The loops of a normalisation over the axes from `axis` on. `point` runs over x; `rows` over the leading axes;
// `along` reads x at a row and at `reduced`.
struct TrailingRows {
  te::Axes point;
  te::Axes rows;
  te::Axes reduced;
  te::Index along;
};
TrailingRows trailing_rows(FormulaContext& c, const Shape& shape, std::size_t axis);

te::Expr inverse_deviation(const te::Expr& variance, double epsilon);  // 1 / √(variance + epsilon)

// A statistic of one row, stored with size 1 in place of the normalised axes.
void write_statistic(FormulaContext& c, std::size_t output, const TrailingRows& t, const te::Expr& value);

}  // namespace xyntra
