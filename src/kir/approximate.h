// Whether a kernel may have its functions approximated.
#pragma once

#include "kir/kernel.h"

namespace xyntra::kir {

// Whether an error of some 2^-20 in an exp, exp2 or sigmoid stays one of that size in the results: what comes of them is multiplied,
// divided, added to its like, compared by max and min. It grows where numbers cancel (exp(x) - 1), where something else follows from it
// (a whole number, a comparison, an index), and in another function.
bool tolerates_approximation(const Kernel& kernel);

}  // namespace xyntra::kir
