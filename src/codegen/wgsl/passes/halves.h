// Arithmetic on f16 where an adapter does it as te means it. Formulas say f16(f32(a) + f32(b)), which is a sum of two f16
// that is rounded once: a machine that rounds to the nearest gives the same bits without the way through f32.
#pragma once

#include "kir/kernel.h"

namespace xyntra::wgsl {

// The kernel with such sums and differences in f16, and with what is exact (negations, sizes, minima, maxima, choices,
// comparisons) in f16 wherever its operands are f16 or constants that f16 holds.
kir::Kernel with_halves(kir::Kernel kernel);

}  // namespace xyntra::wgsl
