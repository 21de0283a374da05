// Temporaries no wider than what is in them.
#pragma once

#include "te/formula.h"

namespace xyntra::te {

// What is rounded and widened again before it is kept is kept as it was rounded, and widened by who reads it:
//   t[i] = f32(bf16(x[i])); y[j] = … t[j] …              t[i] = bf16(x[i]); y[j] = … f32(t[j]) …
void narrow_temporaries(Formula& formula);

}  // namespace xyntra::te
