// sim: kernels interpreted, with every access, race and barrier looked at.
#include "backends/by_kernels.h"
#include "backends/rows.h"
#include "compiler/compiled/sim_backend.h"

namespace xyntra {
namespace {

Result<CompiledModel> simulated(const Plan& plan, const RunSettings& settings) {
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, lower_options(settings)));
  CompiledModel model{std::make_shared<const LaunchProgram>(std::move(lowered.program)), lowered.host};
  model.kernels = lowered.kernels.size();
  model.driver = simulate_kernels(std::move(lowered.kernels));
  return model;
}

}  // namespace

Backend sim_backend() {
  Backend row{"sim", "", "kernels interpreted, with race and bounds checks"};
  row.takes_donations = true;
  row.target = []() -> Result<const Target*> { return &host_target(); };
  row.run_plan = [](const PlannedModel& model, const RunSettings& settings) -> MadeRunner {
    XYNTRA_TRY(CompiledModel compiled, simulated(model.plan, settings));
    return run_by_kernels(model.graph, settings, std::move(compiled));
  };
  return row;
}

}  // namespace xyntra
