// fused: the groups of a plan, each evaluated as one formula.
#include "backends/rows.h"
#include "fusion/execute.h"

namespace xyntra {
namespace {

class GroupByGroup : public ModelRunner {
 public:
  static MadeRunner make(const PlannedModel& model, const RunSettings& settings) {
    auto runner = std::make_unique<GroupByGroup>(model, settings.running);
    XYNTRA_TRY(PlanRunner made, PlanRunner::create(runner->plan_, settings.running));
    runner->runner_ = std::make_unique<PlanRunner>(std::move(made));
    return runner;
  }
  GroupByGroup(const PlannedModel& model, EvaluatorOptions options)
      : graph_(model.graph), options_(std::move(options)), plan_(model.plan) {}

  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override {
    if (plan_.assumptions.empty() || runner_->takes(inputs)) return runner_->run(inputs);
    // Sizes that the plan took for equal are not: the model broadcasts, and runs as it was written.
    XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph_, options_));
    return evaluator.run(inputs);
  }

 private:
  const Graph& graph_;
  EvaluatorOptions options_;
  Plan plan_;
  std::unique_ptr<PlanRunner> runner_;
};

}  // namespace

Backend fused_backend() {
  Backend row{"fused", "", "the fused groups, each evaluated as one formula"};
  row.lends_memory = true;
  // One target whatever the host, so that what is checked this way is the same everywhere; this table has the most layouts.
  row.target = [] { return find_target("avx512"); };
  row.run_plan = GroupByGroup::make;
  return row;
}

}  // namespace xyntra
