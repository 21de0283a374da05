// The cpu backend: a plan becomes machine code for this CPU, or for another of its kind.
#pragma once

#include "codegen/cache/object_cache.h"
#include "compiler/compiled/compiled_model.h"
#include "compiler/lower_plan.h"
#include "support/counts.h"

namespace xyntra {

struct CpuOptions {
  std::string cpu = "native";  // codegen/llvm/emit.h says which names there are
  int threads = 0;
  std::shared_ptr<Budget> budget;
  std::shared_ptr<RunCounts> counts = {};  // may be null
  double kernel_seconds = 30;  // to make machine code of one kernel; Limit error after that
  ObjectCache cache =
      ObjectCache::off();  // where machine code is kept; ObjectCache::standard() is the user's
};

// A program whose code is not loaded yet: it may be for another machine.
struct CompiledProgram {
  LaunchProgram program;
  std::shared_ptr<const NodesOnHost> host;
  std::vector<std::byte> object;  // empty where there are no kernels
};
Result<CompiledProgram> compile_program(LoweredPlan lowered, const CpuOptions& options);

// For this machine, ready to run.
Result<CompiledModel> compile_for_cpu(const Plan& plan, const CpuOptions& options);

// For people: the kernels of a plan, and their assembly.
Result<std::string> kernels_of(const Plan& plan);
Result<std::string> assembly_of(const Plan& plan, std::string_view cpu);

}  // namespace xyntra
