// Functions that an element goes through one after another, to be computed in turns over a few vectors.
//
//   y[i] = gelu(tanh(x[i]))        c[l] = tanh(x[i + l]) for l < 256;  y[i + l] = gelu(c[l]) for l < 256
//
// Each function has a dozen constants and more. Those of one stay in registers while it goes over the vectors; those of two do not.
#pragma once

#include <vector>

#include "te/expr.h"

namespace xyntra {

bool functions_in(const te::Expr& expr);  // whether it has any

// Parts of an expression to be kept for what comes after them, in the order in which they can be computed: none of them, nor
// the whole without them, has several functions of many constants. Nothing where there is one function, or where two share what
// they are made of.
std::vector<te::Expr> function_parts(const te::Expr& whole);

}  // namespace xyntra
