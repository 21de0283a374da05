#include "cli/plan_flags.h"

#include "compiler/declared_sizes.h"
#include "compiler/model_runner.h"
#include "report/contract.h"
#include "report/patterns.h"
#include "rewrite/user_rules.h"

namespace xyntra {
namespace {

Result<const Target*> target_of(const Session& session) {
  const std::string& name = session.config->text("plan.target");
  if (name == "host") return &host_target();
  return find_target(name);
}

bool is_given(const Session& session, const char* setting) {
  const auto flag = session.flags.find(setting);
  return flag != session.flags.end() && !flag->second.value.empty();
}

}  // namespace

void declare_dim(Flags& syntax, std::vector<std::string>& dims, const std::string& what_for) {
  syntax.push_back({"--dim", &dims,
                    "NAME=SIZE " + what_for +
                        ", such as seq=128; NAME=LOW..HIGH: sizes that may be run, such as seq=1..512, or "
                        "seq=128..128, which fixes one; repeatable",
                    "SIZE"});
}

void declare_plan_flags(Flags& syntax, Session& session, PlanFlags& flags) {
  declare_target(syntax, session);
  declare_dim(syntax, flags.dims, "to count costs with");
  syntax.push_back({"--donate", &flags.donated,
                    "input that its caller may donate, with room for the result that appends rows to it, "
                    "such as a KV cache; * "
                    "for all such inputs; repeatable",
                    "NAME"});
  declare_forbid(syntax, session);
  declare_precision_flag(syntax, session);
  declare_steps(syntax, flags);
}

void declare_target(Flags& syntax, Session& session) {
  declare_setting(syntax, session, "--target", "plan.target", "NAME",
                  "plan for this target of xyntra devices, or host");
}

void declare_steps(Flags& syntax, PlanFlags& flags) {
  for (const PipelineStep& step : pipeline_steps()) {
    if (step.when_off == nullptr) continue;
    const std::string name = step.name;
    syntax.push_back({"--no-" + name, [&flags, name] { flags.off.insert(name); },
                      "leave out the step " + name + ": " + step.when_off});
  }
}

void declare_forbid(Flags& syntax, Session& session) {
  declare_setting(syntax, session, "--forbid", "rewrite.forbid", "CLASS",
                  "rules and schedules not to use: reassociating, precision-changing, none");
}

void declare_precision_flag(Flags& syntax, Session& session) {
  declare_setting(syntax, session, "--precision", "plan.precision", "NAME",
                  "f32; bf16: factors of f32 matmuls are rounded to it, sums stay f32; bf16x3: f32 matmuls "
                  "with weights "
                  "from a bf16x3 split of each factor, where the target has tiles; winograd: 3x3 "
                  "convolutions with fewer "
                  "multiplications (all precision-changing)");
}

Result<Precision> precision_of(const Session& session) {
  const std::string& name = session.config->text("plan.precision");
  XYNTRA_TRY(const Precision precision, precision_named(name));
  if (precision == Precision::F32) return precision;
  // To ask for it is to allow it; what was forbidden in so many words stays forbidden.
  const Origin& origin = session.config->origin("rewrite.forbid");
  if (origin.kind != Origin::Kind::Default && session.config->text("rewrite.forbid") != "none")
    return usage_error("precision " + name + " is precision-changing, which " + origin.to_string() +
                       " forbids");
  return precision;
}

void declare_contract_flags(Flags& syntax, Session& session) {
  declare_setting(syntax, session, "--max-kernels", "contract.max_kernels", "N",
                  "exit code 1 if there are more kernels");
  declare_setting(syntax, session, "--max-bytes", "contract.max_bytes", "BYTES",
                  "exit code 1 if the kernels move more, such as 250MB");
  declare_switch(syntax, session, "--no-fallback", "contract.no_fallback",
                 "exit code 1 if anything runs on the host");
}

Result<CompileOptions> compile_options(const PlanFlags& flags, const Session& session,
                                       SymbolBindings nominal) {
  CompileOptions options;
  XYNTRA_TRY(options.target, target_of(session));
  options.fusion.choose.nominal = std::move(nominal);
  options.budget = session.budget();
  XYNTRA_TRY(options.rewrite, rewrite_options_of(*session.config));
  options.fusion.choose.allow_reassociating = options.rewrite.allow_reassociating;
  XYNTRA_TRY(options.precision, precision_of(session));
  options.donated = flags.donated;
  options.rewrite.fold_limit = session.config->integer("limits.folded_constant");
  for (const PipelineStep& step : pipeline_steps()) {
    if (flags.off.contains(step.name)) step.turn_off(options);
  }
  return options;
}

Result<Planning> planning_for(Module module, const PlanFlags& flags, const Session& session) {
  Planning made;
  XYNTRA_TRY(DeclaredSizes declared, declared_sizes(module.graph, flags.dims, "--dim "));
  XYNTRA_TRY(made.module, with_declared(std::move(module), declared, session.budget().get()));
  XYNTRA_TRY(made.options, compile_options(flags, session, std::move(declared.sizes)));
  return made;
}

Result<const Target*> target_for(const std::string& backend, const Session& session) {
  if (!is_given(session, "plan.target")) return target_of_backend(backend);
  XYNTRA_TRY(const Target* target, target_of(session));
  if (backend == "cpu" && !runs_on_host(*target))
    return usage_error("machine code of the backend cpu is for this CPU, and " + std::string(target->name) +
                       " is another: --target goes with wgsl, sim and fused");
  if (backend == "wgsl" && target->kind != TargetKind::WebGpu)
    return usage_error("shaders are for targets of WebGPU: webgpu, webgpu_software");
  return target;
}

Status check_plan_flags(const std::string& backend, const PlanFlags& flags, const Session& session) {
  if (runs_plans(backend)) return {};
  const std::string why = "the backend " + backend + " runs a model as it is written, without a plan: ";
  if (is_given(session, "plan.target")) return usage_error(why + "--target has no effect");
  if (!flags.off.empty()) return usage_error(why + "--no-" + *flags.off.begin() + " has no effect");
  return {};
}

LockOptions lock_options(const CompileOptions& options, const Session& session) {
  LockOptions locking;
  if (session.config->origin("plan.target").kind != Origin::Kind::Default) locking.target = options.target;
  locking.allow_reassociating = options.rewrite.allow_reassociating;
  locking.allow_precision_changing =
      options.rewrite.allow_precision_changing || options.precision != Precision::F32;
  locking.threads = session.threads();
  locking.budget = options.budget;
  return locking;
}

Result<std::vector<std::string>> broken_contract(const Plan& plan, const PlanFigures& figures,
                                                 const Session& session) {
  std::vector<std::string> broken = broken_parts(contract_of(*session.config), plan, figures);
  XYNTRA_TRY(const std::vector<UserPattern> patterns, user_patterns_of(*session.config));
  for (std::string& part : broken_patterns(patterns, plan)) broken.push_back(std::move(part));
  return broken;
}

Result<std::vector<std::string>> broken_contract(const Graph& model, const Plan& plan,
                                                 const CompileOptions& options, const Session& session) {
  const ContractSettings contract = contract_of(*session.config);
  const bool asked = contract.max_kernels || contract.max_bytes || contract.no_fallback;
  if (!asked && session.config->records("patterns").empty()) return std::vector<std::string>{};
  XYNTRA_TRY(const PlanFigures figures, figures_of(model, plan, options));
  return broken_contract(plan, figures, session);
}

std::string broken_text(const std::vector<std::string>& broken) {
  std::string text;
  for (const std::string& part : broken) text += "contract broken: " + part + "\n";
  return text;
}

}  // namespace xyntra
