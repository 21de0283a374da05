// xyntra compile: a model as an artifact, or as a folder for the web.
#include <algorithm>

#include "cli/flags/plan_flags.h"
#include "cli/terminal.h"
#include "cli/user_cache.h"
#include "cli/verb.h"
#include "compiler/model_file.h"
#include "package/artifact.h"
#include "package/web_folder.h"
#include "passes/declared_sizes.h"
#include "report/explain/explain.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

struct CompileFlags {
  std::string model;
  std::string output;
  std::string cpus = "native";
  std::string web;
  PlanFlags plan;
};

// What costs were counted for.
struct Planned {
  Placement placement;
  SymbolBindings sizes;
  std::vector<std::string> assumed;  // sizes that nobody gave
};

std::string default_artifact(const std::string& model) {
  const std::size_t dot = model.rfind('.');
  return (dot == std::string::npos ? model : model.substr(0, dot)) + ".xyn";
}

std::string levels_table(const ArtifactFigures& figures) {
  using Align = Table::Align;
  Table table({Align::Left, Align::Right, Align::Right, Align::Right});
  table.header({"target", "kernels", "host calls", "code"});
  for (const ArtifactFigures::Level& level : figures.levels) {
    table.row({level.name, std::to_string(level.kernels), std::to_string(level.host_calls),
               human_bytes(static_cast<std::int64_t>(level.code_bytes))});
  }
  return table.to_string(stdout_width());
}

Json figures_json(const ArtifactFigures& figures) {
  Json json{
      {"constants", figures.constants}, {"weight_bytes", figures.weight_bytes}, {"levels", Json::array()}};
  for (const ArtifactFigures::Level& level : figures.levels) {
    json["levels"].push_back({{"name", level.name},
                              {"kernels", level.kernels},
                              {"host_calls", level.host_calls},
                              {"code_bytes", level.code_bytes},
                              {"fallbacks", fallbacks_json(level.fallbacks)}});
  }
  return json;
}

std::string fallbacks_text(const ArtifactFigures& figures) {
  std::string text;
  for (const ArtifactFigures::Level& level : figures.levels) {
    if (level.fallbacks.empty()) continue;
    text += "\n" + level.name + ": " + fallbacks_table(level.fallbacks, stdout_width());
  }
  return text;
}

// A session compiles such a model again for the sizes it sees; an artifact has no compiler.
std::string advice(const ArtifactFigures& figures) {
  const bool open = std::ranges::any_of(figures.levels, &ArtifactFigures::Level::sizes_decide);
  if (!open) return "";
  return "\nsizes decide branches of this model, which run on the host: --dim NAME=SIZE..SIZE fixes a size\n"
         "and makes kernels of what follows\n";
}

Result<ExitCode> compile_for_web(const CompileFlags& flags, const Module& module, WebOptions options,
                                 const Planned& planned, Session& session) {
  options.threads = session.threads();
  Progress progress("");
  progress.show("shaders");
  auto written = write_web_folder(module, flags.web, options);
  if (!written) return failure(std::move(written).error().in_file(flags.model));
  if (session.json) {
    Json json{{"folder", flags.web}};
    add_placement(json, planned.placement, planned.sizes);
    json.update({{"kernels", written->kernels},
                 {"launches", written->launches},
                 {"constants", written->constants},
                 {"weight_bytes", written->weight_bytes},
                 {"shader_bytes", written->shader_bytes}});
    session.out = json.dump(1) + "\n";
    return ExitCode::Done;
  }
  session.out = printable(flags.web) + ": " + std::to_string(written->kernels) + " shaders of " +
                human_bytes(static_cast<std::int64_t>(written->shader_bytes)) + " for " +
                std::to_string(written->launches) + " launches, " + std::to_string(written->constants) +
                " constants of " + human_bytes(static_cast<std::int64_t>(written->weight_bytes)) + "\n" +
                placement_text(planned.placement) + sizes_text(planned.sizes, planned.assumed);
  return ExitCode::Done;
}

// --backend says what it is compiled for, --web where to; an artifact's levels have a target each.
Result<Placement> placement_to_compile(const CompileFlags& flags, const Session& session) {
  const bool named = session.config->origin("run.backend").kind != Origin::Kind::Default;
  const bool targeted = session.config->origin("plan.target").kind == Origin::Kind::Flag;
  XYNTRA_TRY(const Backend* backend, named || flags.web.empty()
                                         ? session.backend()
                                         : Result<const Backend*>(&backend_for(TargetKind::WebGpu)));
  const std::string name(backend->name);
  const bool folder = backend->package == Package::WebFolder;
  if (backend->package == Package::None)
    return usage_error("models are compiled for the backends " +
                       backends_where([](const Backend& one) { return one.package != Package::None; }) +
                       ", not for " + name);
  if (folder && flags.web.empty())
    return usage_error("--backend " + name + " needs --web DIR: shaders are compiled for browsers");
  if (!folder && !flags.web.empty())
    return usage_error("--web is for --backend " +
                       backends_where([](const Backend& one) { return one.package == Package::WebFolder; }));
  if (!flags.web.empty() && !flags.output.empty())
    return usage_error("--web says where to write; --output is for artifacts");
  if (folder && targeted) return placement_to_plan(session);
  if (targeted) return usage_error("an artifact's targets follow from --cpu; --target is for --web");
  XYNTRA_TRY(const Target* target, backend->target());
  return Placement{backend, target};
}

Result<ExitCode> compile(const CompileFlags& flags, Session& session) {
  XYNTRA_TRY(const Placement placement, placement_to_compile(flags, session));
  const auto budget = session.budget();
  XYNTRA_TRY(const Module module, read_model(flags.model, flags.plan.model_inputs, budget));
  ArtifactOptions options;
  XYNTRA_TRY(DeclaredSizes declared, declared_sizes(module.graph, flags.plan.dims, "--dim "));
  options.ranges = std::move(declared.ranges);
  SymbolRanges ranges = module.symbols;
  for (const auto& [name, range] : options.ranges) ranges[name] = range;
  Planned planned{placement, {}, {}};
  XYNTRA_TRY(planned.sizes, with_default_sizes(module.graph, ranges, declared.sizes, budget.get()));
  for (const auto& [name, size] : planned.sizes) {
    if (!declared.sizes.contains(name)) planned.assumed.push_back(name);
  }
  XYNTRA_TRY(options.compile, compile_options(flags.plan, session, placement.target,
                                              nominal_within(ranges, declared.sizes, planned.sizes)));
  if (placement.backend->package == Package::WebFolder)
    return compile_for_web(flags, module, {options.compile, options.ranges, 0}, planned, session);
  options.cpus.clear();
  for (std::string_view cpu : split(flags.cpus, ',')) options.cpus.emplace_back(cpu);
  options.threads = session.threads();
  options.kernel_seconds = session.config->number("limits.kernel_seconds");
  options.cache = user_cache(session);
  options.notes = [&module](const Plan& plan, const CompileOptions& made_with) {
    return explain_notes(module.graph, plan, made_with);
  };
  Progress progress("");
  options.progress = [&progress](const std::string& phase) { progress.show(phase); };
  const std::string output = flags.output.empty() ? default_artifact(flags.model) : flags.output;
  auto written = write_artifact(module, output, options);
  if (!written) return failure(std::move(written).error().in_file(flags.model));
  if (session.json) {
    Json json{{"artifact", output}, {"backend", placement.backend->name}, {"sizes", planned.sizes}};
    json.update(figures_json(*written));
    session.out = json.dump(1) + "\n";
  } else {
    session.out = printable(output) + ": " + std::to_string(written->constants) + " constants of " +
                  human_bytes(static_cast<std::int64_t>(written->weight_bytes)) + "\n" +
                  placement_text({placement.backend, nullptr}) + sizes_text(planned.sizes, planned.assumed) +
                  "\n" + levels_table(*written) + fallbacks_text(*written) + advice(*written);
  }
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_compile(Flags& syntax, Session& session) {
  auto flags = std::make_shared<CompileFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx, .pt2, .pt or .xir file", "", Flag::Required});
  syntax.push_back(
      {"-o,--output", &flags->output, "where to write it; else beside the model, ending in .xyn", "FILE"});
  syntax.push_back({"--cpu", &flags->cpus,
                    "CPUs to make code for: native (this one), generic, or a list such as avx2,avx512; the "
                    "best that a machine has is taken when it is loaded",
                    "NAME,...", Flag::Defaulted});
  declare_setting(syntax, session, "--backend", "run.backend", "NAME",
                  "cpu: an artifact; wgsl: a folder for browsers, see --web");
  syntax.push_back(
      {"--web", &flags->web, "folder to write for browsers: xyntra.js in it runs the model", "DIR"});
  declare_plan_flags(syntax, session, flags->plan);
  return [flags](Session& running) { return compile(*flags, running); };
}

}  // namespace xyntra
