#include "cli/plan_flags.h"

#include "compiler/nominal_sizes.h"
#include "rewrite/user_rules.h"

namespace xyntra {
namespace {

Result<const Target*> target_of(const Session& session) {
  const std::string& name = session.config->text("plan.target");
  if (name == "host") return &host_target();
  return find_target(name);
}

}  // namespace

void declare_plan_flags(Flags& syntax, Session& session, PlanFlags& flags) {
  declare_setting(syntax, session, "--target", "plan.target", "NAME",
                  "plan for this target of xyntra devices, or host");
  syntax.push_back(
      {"--dim", &flags.dims, "NAME=SIZE to count costs with, such as seq=128; repeatable", "SIZE"});
  declare_setting(syntax, session, "--forbid", "rewrite.forbid", "CLASS",
                  "rules and schedules not to use: reassociating, precision-changing, none");
  for (const PipelineStep& step : pipeline_steps()) {
    if (step.when_off == nullptr) continue;
    const std::string name = step.name;
    syntax.push_back({"--no-" + name, [&flags, name] { flags.off.insert(name); },
                      "leave out the step " + name + ": " + step.when_off});
  }
}

void declare_contract_flags(Flags& syntax, Session& session) {
  declare_setting(syntax, session, "--max-kernels", "contract.max_kernels", "N",
                  "exit code 1 if there are more kernels");
  declare_setting(syntax, session, "--max-bytes", "contract.max_bytes", "BYTES",
                  "exit code 1 if the kernels move more, such as 250MB");
  declare_switch(syntax, session, "--no-fallback", "contract.no_fallback",
                 "exit code 1 if anything runs on the host");
}

Result<CompileOptions> compile_options(const Graph& graph, const PlanFlags& flags, const Session& session) {
  CompileOptions options;
  XYNTRA_TRY(options.target, target_of(session));
  XYNTRA_TRY(options.fusion.choose.nominal, nominal_sizes(graph, flags.dims, "--dim "));
  options.budget = session.budget();
  XYNTRA_TRY(options.rewrite, rewrite_options_of(*session.config));
  options.fusion.choose.allow_reassociating = options.rewrite.allow_reassociating;
  options.rewrite.fold_limit = session.config->integer("limits.folded_constant");
  for (const PipelineStep& step : pipeline_steps()) {
    if (flags.off.contains(step.name)) step.turn_off(options);
  }
  return options;
}

}  // namespace xyntra
