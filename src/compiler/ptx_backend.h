// Plans as PTX, on an NVIDIA GPU.
#pragma once

#include <string>

#include "codegen/ptx/emit.h"
#include "compiler/compiled_model.h"
#include "compiler/lower_plan.h"

namespace xyntra {

// The kernels of a plan, one after another, for people.
Result<std::string> ptx_of(const Plan& plan);

}  // namespace xyntra
