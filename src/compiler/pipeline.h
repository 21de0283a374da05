// The one list of steps from a graph to a plan.
#pragma once

#include "fusion/groups.h"
#include "plan/plan.h"
#include "rewrite/rewrite.h"

namespace xyntra {

struct CompileOptions {
  const Target* target = nullptr;
  RewriteOptions rewrite;
  FusionOptions fusion;
  std::shared_ptr<Budget> budget;
};

// The graph must have its types inferred.
Result<Plan> make_plan(const Graph& graph, const CompileOptions& options);

}  // namespace xyntra
