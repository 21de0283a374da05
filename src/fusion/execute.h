// Runs a plan on the reference evaluator: each group by its composed formula, not node by node. What it says must be
// what the unfused graph says.
#pragma once

#include "interp/evaluator.h"
#include "plan/plan.h"

namespace xyntra {

class PlanRunner {
 public:
  // The plan must outlive the runner.
  static Result<PlanRunner> create(const Plan& plan, EvaluatorOptions options = {});
  ~PlanRunner();
  PlanRunner(PlanRunner&&) noexcept;
  PlanRunner& operator=(PlanRunner&&) noexcept;

  // Whether the plan was made for inputs of these sizes; the error says which differ.
  Status takes(std::span<const Datum> inputs) const;
  Result<std::vector<Datum>> run(std::span<const Datum> inputs);

 private:
  class State;
  explicit PlanRunner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xyntra
