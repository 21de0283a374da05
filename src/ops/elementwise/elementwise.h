// Pieces of elementwise formulas.
#pragma once

#include "ops/formula_context.h"

namespace xyntra {

te::Expr wide(te::Expr x);  // in the type arithmetic is done in: f32 for narrow floats

// out[i] = operation(x[i]), computed wide.
template <class Operation>
Status unary(FormulaContext& c, Operation operation) {
  te::Axes i = c.axes(c.out_shape());
  c.write(c.out(), i, operation(wide(c.in(0)(i))));
  return {};
}

// Activations that several ops share; x is f32 or f64.
te::Expr gelu_exact(const te::Expr& x);  // x Φ(x) = x/2 (1 + erf(x / √2))
te::Expr gelu_tanh(const te::Expr& x);   // x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
te::Expr softplus_of(const te::Expr& x);

}  // namespace xyntra
