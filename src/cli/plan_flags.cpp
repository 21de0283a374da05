#include "cli/plan_flags.h"

#include <algorithm>

#include "rewrite/user_rules.h"
#include "support/text.h"

namespace xyntra {
namespace {

Result<const Target*> target_of(const Session& session) {
  const std::string& name = session.config->text("plan.target");
  if (name == "host") return &host_target();
  return find_target(name);
}

std::vector<std::string> symbols_of_inputs(const Graph& graph) {
  std::vector<std::string> symbols;
  for (ValueId input : graph.inputs) {
    const Type& type = graph.value(input).type;
    if (!type.shape) continue;
    for (const Dim& dim : *type.shape) dim.collect_symbols(symbols);
  }
  return symbols;
}

Result<SymbolBindings> sizes_of(const Graph& graph, const std::vector<std::string>& dims) {
  const std::vector<std::string> symbols = symbols_of_inputs(graph);
  SymbolBindings sizes;
  for (const std::string& text : dims) {
    const std::size_t at = text.rfind('=');
    const auto value =
        at == std::string::npos ? std::nullopt : parse_i64(std::string_view(text).substr(at + 1));
    if (!value || *value < 0) return usage_error("--dim " + text + ": expected NAME=SIZE, such as seq=128");
    const std::string name = text.substr(0, at);
    if (std::ranges::find(symbols, name) == symbols.end()) {
      return usage_error("--dim " + text + ": the inputs have no size of this name; they have " +
                         (symbols.empty() ? "only fixed ones" : joined(symbols, ", ")));
    }
    if (!sizes.emplace(name, *value).second)
      return usage_error("--dim " + text + ": the size was given already");
  }
  return sizes;
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
  XYNTRA_TRY(options.fusion.choose.nominal, sizes_of(graph, flags.dims));
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
