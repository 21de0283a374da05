#include "compiler/compiled/cpu_backend.h"

#include "codegen/cache/cached_kernels.h"
#include "runtime/artifact/artifact.h"
#include "support/limits/current_budget.h"

namespace xyntra {

Result<CompiledProgram> compile_program(LoweredPlan lowered, const CpuOptions& options) {
  if (options.counts) ++options.counts->compiles;
  CompiledProgram made{std::move(lowered.program), std::move(lowered.host), {}};
  if (lowered.kernels.empty()) return made;  // views and host operations alone
  CodeOptions code_options;
  code_options.distinct_buffers = false;  // a plan may write a result over an operand
  code_options.kernel_seconds = options.kernel_seconds;
  code_options.budget = options.budget.get();
  XYNTRA_TRY(CompiledKernels compiled, within(options.budget.get(), "making machine code", [&] {
               return cached_kernels(lowered.kernels, options.cpu, code_options, options.cache);
             }));
  for (CompiledKernel& kernel : compiled.kernels) {
    ProgramKernel& one = made.program.kernels.emplace_back();
    for (CompiledPhase& phase : kernel.phases)
      one.phases.push_back({nullptr, phase.work_items, std::move(phase.symbol)});
    one.sizes = std::move(kernel.sizes);
    one.workspace_bytes = std::move(kernel.workspace_bytes);
    one.scratch_bytes = kernel.scratch_bytes;
    one.uses_tiles = kernel.uses_tiles;
  }
  made.object = std::move(compiled.object);
  return made;
}

Result<CompiledModel> compile_for_cpu(const Plan& plan, const CpuOptions& options) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {options.threads, options.budget}));
  XYNTRA_TRY(CompiledProgram compiled, compile_program(std::move(lowered), options));
  CompiledModel model;
  if (!compiled.program.kernels.empty())
    XYNTRA_CHECK_OK(link_program(compiled.program, compiled.object, model.code_bytes));
  model.kernels = compiled.program.kernels.size();
  model.program = std::make_shared<const LaunchProgram>(std::move(compiled.program));
  model.host = compiled.host;
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
