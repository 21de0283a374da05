// How long the code of a kernel is, by a count of operations (te/cost/code_size.h): unrolled loops are written out, and functions are
// written for each lane of a vector.
#pragma once

#include "kir/kernel.h"

namespace xyntra::kir {

std::int64_t code_size(const Kernel& kernel, const Stmt& part);
inline std::int64_t code_size(const Kernel& kernel) { return code_size(kernel, kernel.body); }

// Whether registers are accessed at a place that depends on a loop: it has to be written out then, since registers have no addresses.
bool indexes_registers(const Kernel& kernel, const Stmt& body, VarId loop);

}  // namespace xyntra::kir
