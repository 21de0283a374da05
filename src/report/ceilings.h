// What this machine's CPU reaches at most, measured now by kernels of our own code generator.
#pragma once

#include "runtime/ceilings.h"
#include "support/result.h"
#include "target/target.h"

namespace xyntra {

// With this many threads, 0 being all. Takes a tenth of a second or two.
Result<Ceilings> measure_ceilings(const Target& target, int threads);

}  // namespace xyntra
