// Loops over merged axes as loops over the axes themselves.
//
//   sum(k < 288) x[c, floordiv(k, 12), mod(k, 12)]   becomes   sum(k0 < 24, k1 < 12) x[c, k0, k1]
//
// A reshape that merges axes leaves such divisions behind. The iterations and their order stay the same. Formulas with scans keep their
// loops.
#pragma once

#include "te/formula.h"

namespace xyntra::te {

// True when a loop was split; indices are left to be simplified.
bool split_axes(Formula& formula);

}  // namespace xyntra::te
