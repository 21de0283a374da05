// From a plan to a program: every group's formula becomes a kernel, equal ones are made once; constants are laid out.
#pragma once

#include <map>

#include "compiler/compiled/host_calls.h"
#include "fusion/fusion_nodes.h"
#include "kir/kernel.h"
#include "lower/lower.h"
#include "plan/plan.h"

namespace xyntra {

struct LoweredPlan {
  LaunchProgram program;  // its kernels have no code yet
  std::vector<kir::Kernel> kernels;  // by number of the program's kernel
  std::shared_ptr<const NodesOnHost> host;
  std::vector<RefusedForm> refused;  // of kernels that plainer loops serve for
  std::vector<Layout>
      packing;  // where weights are not packed: the layout that each constant still has to get
};

struct LowerOptions {
  int threads = 0;
  std::shared_ptr<Budget> budget;
  std::int64_t subgroup_lanes = 0;  // of the device, as for lower()
  bool pack_weights = true;  // false: they are to be written, not run with; LoweredPlan::packing says how
};

// Kernels that were made while the forms of a plan were chosen, by schedule and formula.
struct MadeKernels {
  std::map<std::string, LoweredKernel> by_key;
};
// The last thing that a plan says: which forms each of its kernels has. The kernels stay with the plan.
Status choose_forms(Plan& plan, const FusionNodes& fusion_nodes, const Target& target,
                    std::span<const Form> barred = {});

// All that was left out for the plan, while it was made and lowered; nothing, as long as nothing is wrong with us.
std::vector<Fallback> fallbacks_of(const Plan& plan, const LoweredPlan& lowered);

// The plan may go away afterwards.
Result<LoweredPlan> lower_plan(const Plan& plan, const LowerOptions& options);

}  // namespace xyntra
