#include "cli/flags/plan_flags.h"

#include "cli/terminal.h"
#include "passes/declared_sizes.h"
#include "report/contract.h"
#include "report/explain/patterns.h"
#include "rewrite/rules/user_rules.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

Result<const Target*> target_of(const Session& session) {
  const std::string& name = session.config->text("plan.target");
  if (name == "host") return &host_target();
  return find_target(name);
}

// By a flag, a variable or fusion.toml.
bool is_set(const Session& session, const char* setting) {
  return session.config->origin(setting).kind != Origin::Kind::Default;
}
bool is_flag(const Session& session, const char* setting) {
  return session.config->origin(setting).kind == Origin::Kind::Flag;
}

std::string names_of(TargetKind kind) {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.kind == kind) names.emplace_back(target.name);
  }
  return joined(names, ", ");
}

Status check_fits(const Backend& backend, const Target& target) {
  if (!backend.target_kind || backend.target_kind == target.kind) return {};
  return usage_error("the backend " + std::string(backend.name) + " is for the targets " +
                     names_of(*backend.target_kind) + ", not for " + std::string(target.name));
}

std::string sizes_words(const SymbolBindings& sizes) {
  std::vector<std::string> words;
  for (const auto& [name, size] : sizes) words.push_back(printable(name) + "=" + std::to_string(size));
  return joined(words, " ");
}

}  // namespace

Result<Placement> placement_to_run(const Session& session) {
  Placement placement;
  XYNTRA_TRY(placement.backend, session.backend());
  const Backend& backend = *placement.backend;
  if (!backend.runs_plans()) return placement;
  if (!is_set(session, "plan.target")) {
    XYNTRA_TRY(placement.target, backend.target());
    return placement;
  }
  XYNTRA_TRY(placement.target, target_of(session));
  XYNTRA_CHECK_OK(check_fits(backend, *placement.target));
  if (backend.runs_target != nullptr && !backend.runs_target(*placement.target)) {
    Error error;
    error.error_class = ErrorClass::Usage;
    error.message = "this machine cannot run code for the target " + std::string(placement.target->name) +
                    ", which " + session.config->origin("plan.target").to_string() + " names";
    error.hint = "the backends fused and sim interpret plans for any target: --backend sim";
    return failure(std::move(error));
  }
  return placement;
}

Result<Placement> placement_to_plan(const Session& session) {
  XYNTRA_TRY(const Target* target, target_of(session));
  Placement placement = placement_of(*target);
  if (!is_set(session, "run.backend")) return placement;
  // Only who names a target may plan for a backend that is not built yet.
  if (!is_flag(session, "run.backend") && is_set(session, "plan.target")) return placement;
  XYNTRA_TRY(const Backend* backend, session.backend());
  if (!backend->runs_plans()) {
    if (!is_flag(session, "run.backend")) return placement;
    return usage_error("the backend " + std::string(backend->name) +
                       " runs a model as it is written: there is no plan for it");
  }
  placement.backend = backend;
  if (is_set(session, "plan.target")) {
    XYNTRA_CHECK_OK(check_fits(*backend, *placement.target));
  } else {
    XYNTRA_TRY(placement.target, backend->target());
  }
  return placement;
}

Placement placement_of(const Target& target) { return {&backend_for(target.kind), &target}; }

Result<Placement> placement_of_level(const std::string& level) {
  if (level == "native") return placement_of(host_target());
  XYNTRA_TRY(const Target* target, find_target(level));
  return placement_of(*target);
}

std::string placement_text(const Placement& placement) {
  const std::string text = labelled("backend", std::string(placement.backend->name));
  if (placement.target == nullptr) return text;
  return text + labelled("target",
                         std::string(placement.target->name) + ": " + std::string(placement.target->summary));
}

std::string sizes_text(const SymbolBindings& sizes, const std::vector<std::string>& assumed) {
  if (sizes.empty()) return "";
  const std::string text = sizes_words(sizes);
  if (assumed.empty()) return labelled("sizes", text);
  std::vector<std::string> names;
  for (const std::string& name : assumed) names.push_back(printable(name));
  return labelled("sizes", text + "  (assumed: " + joined(names, ", ") + "; --dim NAME=SIZE decides)");
}

Error with_assumed_sizes(Error error, const SymbolBindings& sizes, const std::vector<std::string>& assumed) {
  SymbolBindings named;
  for (const std::string& name : assumed) {
    if (const auto size = sizes.find(name); size != sizes.end()) named.insert(*size);
  }
  if (!named.empty() && error.hint.empty())
    error.hint = "these sizes were assumed: " + sizes_words(named) + "; --dim NAME=SIZE decides";
  return error;
}

std::string placement_phrase(const Placement& placement, const SymbolBindings& sizes) {
  std::string text(placement.backend->name);
  if (placement.target != nullptr) text += ", target " + std::string(placement.target->name);
  return sizes.empty() ? text : text + ", " + sizes_words(sizes);
}

void add_placement(Json& json, const Placement& placement, const SymbolBindings& sizes) {
  json["backend"] = placement.backend->name;
  json["target"] = placement.target == nullptr ? Json() : Json(placement.target->name);
  json["sizes"] = sizes;
}

void declare_dim(Flags& syntax, std::vector<std::string>& dims, const std::string& what_for) {
  syntax.push_back({"--dim", &dims,
                    "NAME=SIZE " + what_for +
                        ", such as seq=128; NAME=LOW..HIGH: sizes that may be run, such as seq=1..512, or "
                        "seq=128..128, which fixes one; repeatable",
                    "SIZE"});
}

namespace {

bool has_flag(const Flags& syntax, std::string_view name) {
  return std::ranges::any_of(syntax, [&](const Flag& flag) { return flag.names == name; });
}

}  // namespace

void declare_plan_flags(Flags& syntax, Session& session, PlanFlags& flags) {
  declare_target(syntax, session);
  declare_dim(syntax, flags.dims, "to count costs with");
  declare_model_inputs(syntax, flags.model_inputs, !has_flag(syntax, "--shape"));
  declare_donate(syntax, flags);
  declare_forbid(syntax, session);
  declare_precision_flag(syntax, session);
  declare_steps(syntax, flags);
}

void declare_donate(Flags& syntax, PlanFlags& flags) {
  syntax.push_back(
      {"--donate", &flags.donated,
       "input whose memory is donated, such as a KV cache: the result that is it with appended rows "
       "is written there; * for all such inputs; repeatable",
       "NAME"});
}

void declare_target(Flags& syntax, Session& session) {
  declare_setting(syntax, session, "--target", "plan.target", "NAME",
                  "plan for this target of xyntra devices, or host");
}

void declare_steps(Flags& syntax, PlanFlags& flags) {
  syntax.push_back({"--bar", &flags.barred,
                    "a form that no kernel is to have, of those that xyntra passes --forms lists; repeatable",
                    "FORM"});
  for (const PipelineStep& step : pipeline_steps()) {
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
  declare_setting(
      syntax, session, "--precision", "plan.precision", "NAME",
      "f32; bf16, f16: operands of f32 GEMMs are rounded to it, sums stay f32; tf32: the same for the "
      "matrix units of NVIDIA GPUs, values in memory stay f32; bf16x3: f32 GEMMs with weights split into "
      "three bf16 terms each, where the target has tiles; winograd: 3x3 convolutions with fewer "
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

namespace {

Result<std::vector<Form>> barred_forms(const std::vector<std::string>& names) {
  std::vector<Form> barred;
  for (const std::string& name : names) {
    const auto form = form_named(name);
    std::vector<std::string> known;
    for (const Form one : all_forms()) known.emplace_back(name_of(one));
    if (!form) return failure(unknown_name("form", name, known));
    if (!may_be_barred(*form))
      return usage_error("the form '" + name + "' cannot be barred: it is what is left where no other works");
    barred.push_back(*form);
  }
  return barred;
}

}  // namespace

Result<CompileOptions> compile_options(const PlanFlags& flags, const Session& session, const Target* target,
                                       SymbolBindings nominal) {
  CompileOptions options;
  options.target = target;
  options.fusion.choose.nominal = std::move(nominal);
  options.budget = session.budget();
  options.rewrite = *session.rewrite;
  options.fusion.choose.allow_reassociating = options.rewrite.allow_reassociating;
  XYNTRA_TRY(options.precision, precision_of(session));
  options.donated = flags.donated;
  options.rewrite.fold_limit = session.config->integer("limits.folded_constant");
  for (const PipelineStep& step : pipeline_steps()) {
    if (flags.off.contains(step.name)) step.turn_off(options);
  }
  XYNTRA_TRY(options.barred_forms, barred_forms(flags.barred));
  return options;
}

Result<Planning> planning_for(Module module, const PlanFlags& flags, const Session& session,
                              const Target* target) {
  Planning made;
  const auto budget = session.budget();
  XYNTRA_TRY(DeclaredSizes declared, declared_sizes(module.graph, flags.dims, "--dim "));
  XYNTRA_TRY(made.module, with_declared(std::move(module), declared, budget.get()));
  const Graph& graph = made.module.graph;
  XYNTRA_TRY(made.sizes, with_default_sizes(graph, made.module.symbols, declared.sizes, budget.get()));
  for (const auto& [name, size] : made.sizes) {
    if (!declared.sizes.contains(name)) made.assumed.push_back(name);
  }
  XYNTRA_TRY(made.options,
             compile_options(flags, session, target,
                             nominal_within(made.module.symbols, std::move(declared.sizes), made.sizes)));
  return made;
}

SymbolBindings nominal_within(const SymbolRanges& ranges, SymbolBindings given, const SymbolBindings& all) {
  for (const auto& [name, range] : ranges) {
    const auto size = all.find(name);
    const bool at_its_end = size != all.end() && (size->second == range.low || size->second == range.high);
    if (at_its_end) given.try_emplace(name, size->second);
  }
  return given;
}

Status check_plan_flags(const Backend& backend, const PlanFlags& flags, const Session& session) {
  if (backend.runs_plans()) return {};
  const std::string why =
      "the backend " + std::string(backend.name) + " runs a model as it is written, without a plan: ";
  if (is_flag(session, "plan.target")) return usage_error(why + "--target has no effect");
  if (!flags.donated.empty()) return usage_error(why + "--donate has no effect");
  if (!flags.barred.empty()) return usage_error(why + "--bar has no effect");
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

bool has_contract(const Session& session) {
  const ContractSettings contract = contract_of(*session.config);
  return contract.max_kernels || contract.max_bytes || contract.no_fallback ||
         !session.config->records("patterns").empty();
}

Result<std::vector<std::string>> broken_contract(const Graph& model, const Plan& plan,
                                                 const CompileOptions& options, const Session& session) {
  if (!has_contract(session)) return std::vector<std::string>{};
  XYNTRA_TRY(const PlanFigures figures, figures_of(model, plan, options));
  return broken_contract(plan, figures, session);
}

std::string broken_text(const std::vector<std::string>& broken) {
  std::string text;
  for (const std::string& part : broken) text += "contract broken: " + printable(part) + "\n";
  return text;
}

}  // namespace xyntra
