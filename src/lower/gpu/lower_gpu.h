// Kernels for GPUs: which forms are tried, in order, down to a work item per element.
#pragma once

#include "lower/lower_by_stages.h"

namespace xyntra {

Result<kir::Kernel> lower_for_gpu(const KernelRequest& request);
// In bounds, and with no more shared memory in any phase than a group of threads may have.
Status is_sound(const kir::Kernel& kernel, const Target& target);

}  // namespace xyntra
