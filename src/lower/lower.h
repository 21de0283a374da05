// The composed formula of a group and the schedule that its plan names become a kernel.
// Equal formulas with equal schedules give equal kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kir/kernel.h"
#include "plan/plan.h"
#include "schedule/forms.h"
#include "target/target.h"

namespace xyntra {

// A form of a kernel that was tried first and that its verifier refused; plainer loops serve instead.
struct RefusedForm {
  std::string kernel, form, reason;
  bool broken = false;  // by an invariant of ours, not by a proof that could not be found
};

struct LoweredKernel {
  kir::Kernel kernel;
  std::vector<std::string> forms;  // that it has, as Schedule::forms has them
  std::vector<RefusedForm> refused;  // what was tried in vain: nothing, for a schedule that was chosen
};

// Layouts are applied to the formula already; the kernel has passed its verifier. A schedule without forms has them chosen; one with
// forms is obeyed, or BadModel says which of them cannot be. Unsupported error when no kernel can do this on the target.
// `nominal`: the sizes that the plan was made for; kernels are right for all others too. `subgroup_lanes`: neighbouring threads
// that exchange values on the device that this is for, if that is known; results are the same with and without. `barred`: forms that are
// not chosen.
Result<LoweredKernel> lower(const te::Formula& formula, const Schedule& schedule, const Target& target,
                            const SymbolBindings& nominal, const std::string& name,
                            std::int64_t subgroup_lanes = 0, std::span<const Form> barred = {});

// Operations of such a kernel (kir/code_size.h); nothing where there is none.
std::optional<std::int64_t> kernel_code_size(const te::Formula& formula, const Schedule& schedule,
                                             const Target& target, const SymbolBindings& nominal);

}  // namespace xyntra
