#include "lower/lower.h"

#include "kir/code_size.h"
#include "kir/passes.h"
#include "lower/cpu/lower_cpu.h"
#include "lower/gpu/lower_gpu.h"
#include "support/limits/stop_at_internal_errors.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

Result<kir::Kernel> lower_as_planned(const KernelRequest& request) {
  return request.target.kind == TargetKind::Cpu ? lower_for_cpu(request) : lower_for_gpu(request);
}

// Stage by stage in the model's own loops; what cannot be shown to be in bounds is asked where it stands.
Result<kir::Kernel> lower_guarded(const KernelRequest& request) {
  request.forms.take(Form::GuardedLoops);
  Lowering lowering = request.lowering(request.formula);
  lowering.forgo_masks();
  kir::Stmt body = lower_stages(lowering, request.schedule);
  kir::Kernel kernel = kir::guard(std::move(lowering).finish(std::move(body)));
  XYNTRA_CHECK_OK(request.target.kind == TargetKind::Cpu ? kir::verify(kernel)
                                                         : is_sound(kernel, request.target));
  return kernel;
}

Result<kir::Kernel> lower_any(const KernelRequest& request) {
  if (request.schedule.kind == ScheduleKind::Plain ||
      (!request.forms.chooses() && request.forms.may_be(Form::GuardedLoops)))
    return lower_guarded(request);
  std::string why;
  try {
    auto made = lower_as_planned(request);
    if (made || made.error().error_class != ErrorClass::Internal) return made;
    why = made.error().message;
  } catch (const InternalError& error) {
    if (stops_at_internal_errors()) throw;
    why = error.message();
  }
  if (!request.forms.chooses()) throw CannotObey{why};
  request.refused.push_back({request.name, name_of(request.schedule.kind), why, true});
  request.forms.take_back(0, why);
  return lower_guarded(request);
}

Result<std::vector<NamedForm>> forms_of(const Schedule& schedule) {
  std::vector<NamedForm> forms;
  for (const std::string& text : schedule.forms) {
    XYNTRA_TRY(NamedForm named, parse_form(text));
    forms.push_back(std::move(named));
  }
  return forms;
}

}  // namespace

Result<LoweredKernel> lower(const te::Formula& formula, const Schedule& schedule, const Target& target,
                            const SymbolBindings& nominal, const std::string& name,
                            std::int64_t subgroup_lanes, std::span<const Form> barred) {
  XYNTRA_TRY(std::vector<NamedForm> given, forms_of(schedule));
  LoweredKernel lowered;
  auto made_by = [&](Forms forms) -> Result<kir::Kernel> {
    auto kernel =
        lower_any({formula, schedule, target, nominal, name, subgroup_lanes, forms, lowered.refused});
    if (kernel && !forms.all_taken()) throw CannotObey{"it names more forms and knobs than the kernel has"};
    lowered.forms.clear();
    for (const NamedForm& named : forms.taken()) lowered.forms.push_back(text_of(named));
    return kernel;
  };
  if (given.empty()) {
    XYNTRA_TRY(lowered.kernel, made_by(Forms::without(barred)));
    return lowered;
  }
  try {
    XYNTRA_TRY(lowered.kernel, made_by(Forms(std::move(given))));
  } catch (const CannotObey& cannot) {
    return bad_model("its kernel cannot be made as the plan says: " + cannot.reason);
  }
  return lowered;
}

std::optional<std::int64_t> kernel_code_size(const te::Formula& formula, const Schedule& schedule,
                                             const Target& target, const SymbolBindings& nominal) {
  const auto made = lower(formula, schedule, target, nominal, "draft");
  return made ? std::optional(kir::code_size(made->kernel)) : std::nullopt;
}

}  // namespace xyntra
