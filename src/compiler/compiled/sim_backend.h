// The sim backend: a plan's kernels interpreted, with every access, race and barrier looked at.
#pragma once

#include "compiler/lower_plan.h"

namespace xyntra {

std::shared_ptr<const KernelDriver> simulate_kernels(std::vector<kir::Kernel> kernels);

}  // namespace xyntra
