// What is computed of a reduced value, as a stage of its own.
//
//   y[i] = gelu(max(k) x[i, k])            m[i] = max(k) x[i, k];  y[i] = gelu(m[i])
//
// Where lanes run along the sum, or along an axis that fills half a vector, a long computation at the end would run element by
// element; by itself it runs along all elements of the result.
#pragma once

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// The formula itself where lanes are full, or little is computed.
te::Formula split_finish(const te::Formula& formula, const Schedule& schedule, const Target& target,
                         const SymbolBindings& nominal);

// A long part of an expression that is made of one of its own parts and numbers alone: the same computation for every place.
//   gelu(sum + bias[n]) + x[m, n]         whole: gelu(…), of: sum + bias[n]
struct PlaceFree {
  te::Expr whole, of;  // undefined where there is none
};
// Whether an expression is made of one of its parts and of numbers alone.
bool is_made_of(const te::Expr& whole, const te::Expr& part);

PlaceFree place_free_part(const te::Expr& finish);

}  // namespace xyntra
