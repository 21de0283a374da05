// cpu: machine code for this CPU, by LLVM.
#include "backends/by_kernels.h"
#include "backends/rows.h"
#include "codegen/llvm/emit.h"
#include "compiler/compiled/compiled_bodies.h"
#include "compiler/compiled/cpu_backend.h"
#include "compiler/compiled/specialise.h"

namespace xyntra {
namespace {

CpuOptions cpu_options(const RunSettings& settings) {
  CpuOptions cpu;
  cpu.threads = settings.running.threads;
  cpu.budget = settings.running.budget;
  cpu.counts = settings.running.counts;
  cpu.kernel_seconds = settings.running.kernel_seconds;
  cpu.cache = settings.cache;
  return cpu;
}

MadeRunner run_machine_code(const PlannedModel& model, const RunSettings& settings) {
  std::shared_ptr<Specialiser> specialiser;
  if (model.made_with != nullptr && Specialiser::wanted(model.plan))
    specialiser =
        std::make_shared<Specialiser>(model.graph, model.plan, *model.made_with, cpu_options(settings));
  XYNTRA_TRY(CompiledModel compiled, compile_for_cpu(model.plan, cpu_options(settings)));
  if (model.made_with != nullptr)
    XYNTRA_CHECK_OK(compile_bodies(compiled, model.plan, *model.made_with, cpu_options(settings)));
  return run_by_kernels(model.graph, settings, std::move(compiled), std::move(specialiser));
}

// Assembly for the CPU at hand, or for that of a target it is none of.
Result<std::string> assembly(const Plan& plan, const Target& target, const ShaderOptions& /*shaders*/) {
  return assembly_of(plan, runs_on_host(target) ? "native" : target.name);
}

Readiness code_generator_state() {
  const auto target = cpu_target("native");
  return target ? Readiness{} : Readiness{"compiled .xyn files only", target.error().with_its_hint()};
}

}  // namespace

Backend cpu_backend() {
  Backend row{"cpu", "", "machine code for this CPU"};
  row.takes_donations = true;
  row.keeps_objects = true;
  row.package = Package::Artifact;
  row.target_kind = TargetKind::Cpu;
  row.target = []() -> Result<const Target*> { return &host_target(); };
  row.runs_target = runs_on_host;
  row.run_plan = run_machine_code;
  row.compile = [](const Plan& plan, const RunSettings& settings) {
    return compile_for_cpu(plan, cpu_options(settings));
  };
  row.code = assembly;
  row.readiness = code_generator_state;
  return row;
}

}  // namespace xyntra
