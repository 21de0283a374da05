// null: kernels are made and launched, and compute nothing. Results have their sizes and dtypes, and are zeros: what is left of a run is what
// the runtime costs. It is also the backend to copy when writing one: everything that a device adds is in launching_nothing().
#include <algorithm>

#include "backends/by_kernels.h"
#include "backends/rows.h"
#include "compiler/compiled/cpu_backend.h"

namespace xyntra {
namespace {

class NullDriver : public KernelDriver {
 public:
  std::unique_ptr<KernelDriver> another() const override { return std::make_unique<NullDriver>(); }

  // Arguments are the inputs, then the outputs: a driver hands them to the kernel that `step.callee` numbers.
  Status launch(const ProgramStep& step, std::span<const KernelArgument> arguments,
                const SymbolBindings& /*sizes*/) override {
    for (const KernelArgument& argument : arguments.last(step.outputs.size()))
      std::ranges::fill(std::span(argument.memory, static_cast<std::size_t>(argument.bytes)), std::byte{});
    return {};
  }
};

Result<CompiledModel> launching_nothing(const Plan& plan, const RunSettings& settings) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, lower_options(settings)));
  CompiledModel model{std::make_shared<const LaunchProgram>(std::move(lowered.program)), lowered.host};
  model.kernels = lowered.kernels.size();
  model.driver = std::make_shared<NullDriver>();  // of a device: the kernels' code, loaded
  return model;
}

}  // namespace

Backend null_backend() {
  Backend row{"null", "", "kernels are launched and compute nothing: what the runtime costs"};
  row.takes_donations = true;
  row.target = []() -> Result<const Target*> { return &host_target(); };
  row.run_plan = [](const PlannedModel& model, const RunSettings& settings) -> MadeRunner {
    XYNTRA_TRY(CompiledModel made, launching_nothing(model.plan, settings));
    return run_by_kernels(model.graph, settings, std::move(made));
  };
  row.code = [](const Plan& plan, const Target& /*target*/, const ShaderOptions& /*shaders*/) {
    return kernels_of(plan);
  };
  return row;
}

}  // namespace xyntra
