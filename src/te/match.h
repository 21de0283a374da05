// Whether one expression is another one under other names.
#pragma once

#include "te/expr.h"
#include "te/walk.h"

namespace xyntra::te {

// `pattern` with its variables substituted by `bound`, which grows as needed, is `expr`: i*2 + j is k*2 + (l+1) with i = k, j = l+1.
bool matches(const Expr& pattern, const Expr& expr, Substitution& bound);

}  // namespace xyntra::te
