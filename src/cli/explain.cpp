// xyntra explain: how a model is cut into kernels, and why.
#include "report/explain/explain.h"
#include "cli/artifact/explain_artifact.h"
#include "cli/flags/plan_flags.h"
#include "cli/terminal.h"
#include "compiler/lower_plan.h"
#include "compiler/model_file.h"
#include "package/artifact.h"
#include "report/explain/occupancy.h"
#include "report/explain/why.h"
#include "support/text/json.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

struct ExplainFlags {
  std::string model;
  std::string from, to;
  std::string lock;
  std::size_t rows = SIZE_MAX;
  PlanFlags plan;
};

std::string heading(const ExplainFlags& flags, const Placement& placement, const Plan& plan,
                    const PlanFigures& figures, std::vector<std::string> assumed) {
  std::erase_if(assumed, [&](const std::string& name) { return !figures.sizes.contains(name); });
  std::string text = labelled("model", printable(flags.model)) + placement_text(placement) +
                     sizes_text(figures.sizes, assumed);
  if (const std::string equal = assumptions_line(plan); !equal.empty()) text += labelled("equal", equal);
  if (const std::string donated = donated_line(plan); !donated.empty()) text += labelled("donated", donated);
  if (const std::string numerics = numerics_line(plan); !numerics.empty())
    text += labelled("numeric", numerics);
  return text + labelled("found", recognised_line(figures));
}

Result<ExitCode> explain_plan(const ExplainFlags& flags, const Module& module, const Plan& plan,
                              const CompileOptions& options, const Placement& placement,
                              const std::vector<std::string>& assumed, Session& session) {
  XYNTRA_TRY(const PlanFigures figures, figures_of(module.graph, plan, options));
  XYNTRA_TRY(const std::vector<std::string> broken, broken_contract(plan, figures, session));
  XYNTRA_TRY(const LoweredPlan lowered, lower_plan(plan, {0, options.budget}));
  const std::vector<Fallback> fallbacks = fallbacks_of(plan, lowered);
  const std::vector<BlockResources> resources = block_resources(lowered, *options.target);
  if (session.json) {
    Json json{{"model", flags.model}, {"backend", placement.backend->name}};
    json.update(plan_json(plan, figures));
    json["fallbacks"] = fallbacks_json(fallbacks);
    if (!resources.empty()) json["occupancy"] = occupancy_json(resources);
    json["contract"] = {{"kept", broken.empty()}, {"broken", broken}};
    session.out = json.dump(1) + "\n";
  } else {
    session.out = heading(flags, placement, plan, figures, assumed) + "\n" +
                  groups_table(plan, figures, flags.rows, stdout_width()) + "\n";
    if (const std::string layouts = layouts_table(plan, stdout_width()); !layouts.empty())
      session.out += layouts + "\n";
    session.out += totals_table(figures);
    if (const std::string table = occupancy_table(resources, flags.rows, stdout_width()); !table.empty())
      session.out += "\n" + table;
    if (!fallbacks.empty()) session.out += "\n" + fallbacks_table(fallbacks, stdout_width());
    session.out += broken_text(broken);
  }
  return broken.empty() ? ExitCode::Done : ExitCode::No;
}

Result<ExitCode> explain_two(const ExplainFlags& flags, const Module& module, const Plan& plan,
                             const CompileOptions& options, Session& session) {
  XYNTRA_TRY(const Why why, why_not_one(module.graph, plan, options, flags.from, flags.to));
  session.out = session.json ? why_json(plan, why).dump(1) + "\n" : why_text(plan, why, stdout_width());
  return ExitCode::Done;
}

Result<ExitCode> explain(const ExplainFlags& flags, Session& session) {
  if (flags.from.empty() != flags.to.empty()) {
    return usage_error("two nodes are needed, or none: xyntra explain MODEL A B");
  }
  if (is_artifact(flags.model)) {
    if (!flags.from.empty() || !flags.lock.empty() || !flags.plan.dump_after.empty())
      return usage_error("an artifact has its plan in it: xyntra explain " + flags.model +
                         " takes no nodes, no --lock and no --dump-after");
    return explain_artifact(flags.model, session);
  }
  PipelineLog log;
  log.dump_after = flags.plan.dump_after;
  if (!log.dump_after.empty()) XYNTRA_CHECK_OK(find_step(log.dump_after));
  XYNTRA_TRY(Module read, read_model(flags.model, flags.plan.model_inputs, session.budget()));
  XYNTRA_TRY(Placement placement, placement_to_plan(session));
  XYNTRA_TRY(Planning planning, planning_for(std::move(read), flags.plan, session, placement.target));
  const Module& module = planning.module;
  CompileOptions& options = planning.options;
  Plan plan;
  if (flags.lock.empty()) {
    XYNTRA_TRY(plan, make_plan(module.graph, options, &log));
  } else {
    if (!log.dump_after.empty())
      return usage_error("a lock is replayed without steps: --dump-after shows none");
    XYNTRA_TRY(plan, load_lock_file(flags.lock, module, lock_options(options, session)));
    XYNTRA_TRY(options.target, find_target(plan.target));
    if (placement.target != options.target) placement = placement_of(*options.target);
  }
  if (!log.dump_after.empty()) {
    session.out = log.dump;
    return ExitCode::Done;
  }
  return flags.from.empty() ? explain_plan(flags, module, plan, options, placement, planning.assumed, session)
                            : explain_two(flags, module, plan, options, session);
}

}  // namespace

VerbAction declare_explain(Flags& syntax, Session& session) {
  auto flags = std::make_shared<ExplainFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx, .pt2, .pt, .xir or .xyn file", "", Flag::Required});
  syntax.push_back({"A", &flags->from, "a node or value, by the model's own name"});
  syntax.push_back({"B", &flags->to, "another one: why are the two not one kernel?"});
  syntax.push_back({"--lock", &flags->lock, "the plan of this lock", "FILE"});
  syntax.push_back({"--rows", &flags->rows, "show only the first N groups", "N"});
  declare_backend(syntax, session);
  declare_plan_flags(syntax, session, flags->plan);
  declare_contract_flags(syntax, session);
  syntax.push_back({"--dump-after", &flags->plan.dump_after,
                    "print the plan after this step, and what the step changed", "STEP"});
  return [flags](Session& running) { return explain(*flags, running); };
}

}  // namespace xyntra
