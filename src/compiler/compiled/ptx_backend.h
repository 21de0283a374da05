// Plans as PTX, on an NVIDIA GPU.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ptx/emit.h"
#include "compiler/compiled/compiled_model.h"
#include "compiler/lower_plan.h"
#include "runtime/drivers/ptx_driver.h"

namespace xyntra {

// A device that models share. A lost one is replaced.
Result<std::shared_ptr<cuda::Device>> shared_gpu(const std::string& which);

// `which` as for cuda::Device::open. Device errors where there is no such GPU.
Result<CompiledModel> compile_for_ptx(const Plan& plan, const LowerOptions& options,
                                      const std::string& which);

// What the driver was given and made of it, to be kept: machine code runs on this chip, by this driver.
struct PtxCode {
  std::vector<PtxKernel> kernels;
  cuda::KernelCode code;  // empty where the driver gave none
};
std::vector<std::byte> to_bytes(const PtxCode& code);
Result<PtxCode> ptx_code_from(std::span<const std::byte> bytes);
std::string identity_of(const cuda::Device& device);  // all that machine code depends on

// The same with what is kept put into `made`; nothing is where a kernel has no machine code.
Result<CompiledModel> compile_for_ptx(const Plan& plan, const LowerOptions& options, const std::string& which,
                                      std::optional<PtxCode>& made);
// Without any text: from what was kept.
Result<CompiledModel> load_for_ptx(LaunchProgram program, std::shared_ptr<const HostCalls> host, PtxCode code,
                                   std::shared_ptr<cuda::Device> device);

// What has no form in PTX, with the names of the nodes it is needed for; takes no device.
Result<std::map<std::string, std::vector<std::string>>> ptx_lacks(const Plan& plan,
                                                                  const LowerOptions& options);

// The kernels of a plan, one after another, for people.
Result<std::string> ptx_of(const Plan& plan);

}  // namespace xyntra
