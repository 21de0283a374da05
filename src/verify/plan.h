// Does a plan compute what its model computes? Each group by its composed formula against its nodes one by one, on the
// values that a run gives it; each value that rules led to against the model's value of that name; and the whole
// plan against the model. All of it beside the float64 oracle.
#pragma once

#include <string>
#include <vector>

#include "interp/evaluator.h"
#include "plan/plan.h"

namespace xyntra {

// Of one tensor or several: how far from float64 it is, and how far the unfused one.
struct PlanError {
  double fused = 0, unfused = 0,
         allowed = 0;  // the largest among the elements; twice the unfused one and 4 ulp
  std::string problem;  // empty: it agrees
};

struct PlanFinding {
  struct Checked {
    std::string name;  // what the group is, the rules and the value, or the output
    PlanError error;
    bool skipped = false;  // on the host: nothing was fused
  };
  std::vector<Checked> groups, outputs;
  std::vector<Checked> chains;  // of rules that ended in a value which the model has too
  std::vector<std::string>
      certificate;  // what is wrong with its lines: a rule that is not there, or of another class
  bool agrees() const;
};

// NaN must stand where the unfused graph has it; what is not a float must be equal.
PlanError compare_with_unfused(const Tensor& fused, const Tensor& unfused, const Tensor& float64);

Result<PlanFinding> verify_plan(const Graph& model, const Plan& plan, std::span<const Datum> inputs,
                                const EvaluatorOptions& options = {});

}  // namespace xyntra
