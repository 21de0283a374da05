#include "compiler/cpu_backend.h"

#include "compiler/cached_kernels.h"
#include "runtime/code/image.h"
#include "runtime/code/tiles.h"

namespace xyntra {

Result<CpuModel> compile_for_cpu(const Plan& plan, const CpuOptions& options) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {options.threads, options.budget}));
  if (lowered.kernels.empty()) {  // views and host operations alone
    return CpuModel{std::make_shared<const LaunchProgram>(std::move(lowered.program)), lowered.host};
  }
  CodeOptions code_options;
  code_options.distinct_buffers = false;  // a plan may write a result over an operand
  XYNTRA_TRY(CompiledKernels compiled,
             cached_kernels(lowered.kernels, options.cpu, code_options, options.cache));
  XYNTRA_TRY(CodeImage loaded, CodeImage::load(compiled.object));
  auto code = std::make_shared<CodeImage>(std::move(loaded));
  LaunchProgram& program = lowered.program;
  for (const CompiledKernel& kernel : compiled.kernels) {
    if (kernel.uses_tiles) XYNTRA_CHECK_OK(allow_tiles());
    ProgramKernel made;
    for (const CompiledPhase& phase : kernel.phases)
      made.phases.push_back({code->phase_function(phase.symbol), phase.work_items});
    made.sizes = kernel.sizes;
    made.workspace_bytes = kernel.workspace_bytes;
    made.scratch_bytes = kernel.scratch_bytes;
    program.kernels.push_back(std::move(made));
  }
  CpuModel model;
  model.code_bytes = code->bytes();
  model.kernels = program.kernels.size();
  program.code = std::move(code);
  model.program = std::make_shared<const LaunchProgram>(std::move(program));
  model.host = lowered.host;
  return model;
}

Result<std::string> kernels_of(const Plan& plan) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {}));
  std::string text;
  for (const kir::Kernel& kernel : lowered.kernels) text += kir::to_string(kernel) + "\n";
  return text;
}

Result<std::string> assembly_of(const Plan& plan, std::string_view cpu) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {}));
  XYNTRA_TRY(CpuTarget target, cpu_target(cpu));
  CodeOptions options;
  options.distinct_buffers = false;
  return kernels_text(lowered.kernels, target, CodeText::Assembly, options);
}

}  // namespace xyntra
