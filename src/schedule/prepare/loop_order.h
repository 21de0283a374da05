// The order of a stage's loops on GPUs: neighbouring threads take neighbouring iterations of the last one, so that it is to be the one
// along which memory is contiguous.
//
//   y[n, h, w, c] = max(…) x[n, …, …, c]    for n, c, h, w       becomes    for n, h, w, c
#pragma once

#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// Where more of what a stage reads and writes is contiguous along another loop than along its last one, that loop comes last. Sums of
// products stay as they are: their schedules find their own way through memory.
void put_contiguous_loops_last(te::Formula& formula, const Target& target, const SymbolBindings& nominal);

}  // namespace xyntra
