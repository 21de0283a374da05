// Parts of matmul formulas.
#pragma once

#include "ops/formula_context.h"

namespace xyntra {

// numpy.matmul's result shape: batch dimensions broadcast, 1-D operands get an axis that is removed again.
Result<Shape> matmul_shape(const OpContext& context, Shape a, Shape b);

// The loops and loads of y[…, i, j] = sum(k) a[…, i, k] * b[…, k, j]. A missing i or j is an absent Expr.
struct Matmul {
  te::Axes out;
  te::Axis k;
  te::Axes batch;
  te::Expr i, j;
  te::Expr left, right;
};
Matmul matmul_of(FormulaContext& c, const te::Buffer& a, const te::Buffer& b, const Shape& out);

// The element of a quantization parameter (scale or zero point) that goes with row i of a, or column j of b:
// one number, one per row or column, or a tensor of a's or b's rank with a 1 for k.
te::Expr row_parameter(const te::Buffer& parameter, const Matmul& p);
te::Expr column_parameter(const te::Buffer& parameter, const Matmul& p);

// A BadModel error for a parameter that is neither one number nor goes with the rows of (…, i, k) or the columns
// of (…, k, j).
Status check_row_parameter(const OpContext& context, std::size_t operand, const Shape& matrix);
Status check_column_parameter(const OpContext& context, std::size_t operand, const Shape& matrix);

namespace rule {
Status matmul(InferenceContext& context);  // of every matmul of operands 0 and 1
}

// y = finish(alpha * a' b' + beta * c), with Gemm's operands and attributes.
Status gemm_with(FormulaContext& c, const te::Builder::Finish& finish);

}  // namespace xyntra
