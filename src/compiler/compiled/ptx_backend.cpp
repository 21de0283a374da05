#include "compiler/compiled/ptx_backend.h"

#include <algorithm>
#include <mutex>

#include "runtime/artifact/ptx_kernel_bytes.h"
#include "runtime/drivers/ptx_driver.h"
#include "support/limits/current_budget.h"

namespace xyntra {
namespace {

// Arguments that are constants of the model wherever a kernel is launched.
std::vector<bool> constant_arguments(const LaunchProgram& program, std::size_t kernel) {
  std::vector<bool> constant;
  bool first = true;
  for (const ProgramStep& step : program.steps) {
    if (step.kind != ProgramStep::Kind::Launch || step.callee != kernel) continue;
    if (first) constant.assign(step.inputs.size(), true);
    first = false;
    for (std::size_t i = 0; i < constant.size(); ++i) {
      const bool is =
          i < step.inputs.size() && program.values.at(step.inputs[i]).kind == ProgramValue::Kind::Constant;
      constant[i] = constant[i] && is;
    }
  }
  return constant;
}

Result<std::vector<PtxKernel>> emit(const Plan& plan, const LoweredPlan& lowered) {
  XYNTRA_TRY(const Target* target, find_target(plan.target));
  std::vector<PtxKernel> made;
  for (std::size_t i = 0; i < lowered.kernels.size(); ++i) {
    XYNTRA_CHECK_OK(check_limits());
    PtxOptions options = PtxOptions::of(*target);
    if (options.overlaps) options.constants = constant_arguments(lowered.program, i);
    auto one = emit_ptx(lowered.kernels[i], options);
    if (!one) {
      for (const ProgramStep& step : lowered.program.steps) {
        if (step.kind == ProgramStep::Kind::Launch && step.callee == i)
          return failure(std::move(one).error().at_node(step.origin, step.op));
      }
      return failure(std::move(one).error());
    }
    made.push_back(std::move(*one));
  }
  return made;
}

}  // namespace

Result<std::shared_ptr<cuda::Device>> shared_gpu(const std::string& which) {
  static std::mutex mutex;
  // Never let go of: the driver ends before statics of ours do.
  static auto& open = *new std::map<std::string, std::shared_ptr<cuda::Device>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<cuda::Device>& device = open[which];
  if (!device || device->lost()) {
    XYNTRA_TRY(device, cuda::Device::open(which));
  }
  return device;
}

namespace {

// Machine code is asked for where `made` is given.
Result<CompiledModel> compile(const Plan& plan, const LowerOptions& options, const std::string& which,
                              PtxCode* made) {
  XYNTRA_TRY(std::shared_ptr<cuda::Device> device, shared_gpu(which));
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, options));
  XYNTRA_TRY(std::vector<PtxKernel> kernels,
             within(options.budget.get(), "writing PTX", [&] { return emit(plan, lowered); }));
  const BudgetScope scope(options.budget.get(), "compiling PTX");
  CompiledModel model;
  for (const PtxKernel& kernel : kernels) model.code_bytes += kernel.text.size();
  model.kernels = kernels.size();
  model.program = std::make_shared<const LaunchProgram>(std::move(lowered.program));
  model.host = lowered.host;
  if (made != nullptr) made->kernels = kernels;
  XYNTRA_TRY(model.driver,
             cuda::drive_ptx(std::move(kernels), std::move(device), made != nullptr ? &made->code : nullptr));
  return model;
}

}  // namespace

Result<CompiledModel> compile_for_ptx(const Plan& plan, const LowerOptions& options,
                                      const std::string& which) {
  return compile(plan, options, which, nullptr);
}

Result<CompiledModel> compile_for_ptx(const Plan& plan, const LowerOptions& options, const std::string& which,
                                      std::optional<PtxCode>& made) {
  PtxCode code;
  XYNTRA_TRY(CompiledModel model, compile(plan, options, which, &code));
  if (std::ranges::none_of(code.code, &std::vector<std::byte>::empty)) made = std::move(code);
  return model;
}

Result<CompiledModel> load_for_ptx(LaunchProgram program, std::shared_ptr<const HostCalls> host, PtxCode code,
                                   std::shared_ptr<cuda::Device> device) {
  CompiledModel model;
  for (const std::vector<std::byte>& one : code.code) model.code_bytes += one.size();
  model.kernels = code.kernels.size();
  model.host = std::move(host);
  for (const ProgramStep& step : program.steps) {
    if (step.kind == ProgramStep::Kind::Launch && step.callee >= code.kernels.size())
      return bad_model("a compiled model lacks a kernel");
  }
  model.program = std::make_shared<const LaunchProgram>(std::move(program));
  XYNTRA_TRY(model.driver, cuda::drive_ptx(std::move(code.kernels), std::move(device), &code.code));
  return model;
}

std::vector<std::byte> to_bytes(const PtxCode& code) {
  ByteWriter writer;
  writer.number(code.kernels.size());
  for (std::size_t i = 0; i < code.kernels.size(); ++i) {
    write_ptx_kernel(writer, code.kernels[i]);
    writer.part(code.code.at(i));
  }
  return std::move(writer.bytes);
}

Result<PtxCode> ptx_code_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "kernels of a compiled model");
  PtxCode made;
  XYNTRA_TRY(const std::size_t count, reader.count());
  for (std::size_t i = 0; i < count; ++i) {
    XYNTRA_TRY(PtxKernel kernel, read_ptx_kernel(reader));
    XYNTRA_TRY(const std::span<const std::byte> code, reader.part());
    if (code.empty()) return reader.bad("one has no machine code");
    made.kernels.push_back(std::move(kernel));
    made.code.emplace_back(code.begin(), code.end());
  }
  XYNTRA_CHECK_OK(reader.end());
  return made;
}

std::string identity_of(const cuda::Device& device) {
  const auto version = cuda::driver_version();
  return device.chip().name + ", " + device.chip().architecture() + ", driver for CUDA " +
         (version ? *version : std::string("?"));
}

Result<std::map<std::string, std::vector<std::string>>> ptx_lacks(const Plan& plan,
                                                                  const LowerOptions& options) {
  XYNTRA_TRY(const LoweredPlan lowered, lower_plan(plan, options));
  std::vector<std::string> by_kernel;
  for (const kir::Kernel& kernel : lowered.kernels) {
    XYNTRA_CHECK_OK(check_limits());
    const auto made = emit_ptx(kernel, {});
    by_kernel.push_back(made ? "" : made.error().message);
  }
  std::map<std::string, std::vector<std::string>> lacking;
  for (const ProgramStep& step : lowered.program.steps) {
    if (step.kind != ProgramStep::Kind::Launch || by_kernel.at(step.callee).empty()) continue;
    lacking[by_kernel.at(step.callee)].push_back(step.origin);
  }
  return lacking;
}

Result<std::string> ptx_of(const Plan& plan) {
  XYNTRA_TRY(const LoweredPlan lowered, lower_plan(plan, {}));
  XYNTRA_TRY(const std::vector<PtxKernel> kernels, emit(plan, lowered));
  std::string text;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    text += "// k" + std::to_string(i) + "\n" + kernels[i].text + "\n";
  return text;
}

}  // namespace xyntra
