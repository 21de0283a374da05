// Kernels for CPUs: which forms a schedule tries, in order, down to loops that always work.
#pragma once

#include "lower/lower_by_stages.h"

namespace xyntra {

Result<kir::Kernel> lower_for_cpu(const KernelRequest& request);

}  // namespace xyntra
