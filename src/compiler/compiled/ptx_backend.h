// Plans as PTX, on an NVIDIA GPU.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/ptx/emit.h"
#include "compiler/compiled/compiled_model.h"
#include "compiler/lower_plan.h"
#include "runtime/drivers/cuda.h"

namespace xyntra {

// A device that models share. A lost one is replaced.
Result<std::shared_ptr<cuda::Device>> shared_gpu(const std::string& which);

// `which` as for cuda::Device::open. Device errors where there is no such GPU.
Result<CompiledModel> compile_for_ptx(const Plan& plan, const LowerOptions& options,
                                      const std::string& which);

// What has no form in PTX, with the names of the nodes it is needed for; takes no device.
Result<std::map<std::string, std::vector<std::string>>> ptx_lacks(const Plan& plan,
                                                                  const LowerOptions& options);

// The kernels of a plan, one after another, for people.
Result<std::string> ptx_of(const Plan& plan);

}  // namespace xyntra
