// xyntra compile: a model as an artifact, or as a folder for the web.
#include <algorithm>

#include "cli/plan_flags.h"
#include "cli/terminal.h"
#include "cli/user_cache.h"
#include "cli/verb.h"
#include "compiler/artifact.h"
#include "compiler/declared_sizes.h"
#include "compiler/model_file.h"
#include "compiler/web_folder.h"
#include "report/explain.h"
#include "support/json.h"
#include "support/text.h"

namespace xyntra {
namespace {

struct CompileFlags {
  std::string model;
  std::string output;
  std::string cpus = "native";
  std::string web;
  PlanFlags plan;
};

std::string default_artifact(const std::string& model) {
  const std::size_t dot = model.rfind('.');
  return (dot == std::string::npos ? model : model.substr(0, dot)) + ".xyn";
}

std::string levels_table(const ArtifactFigures& figures) {
  using Align = TextTable::Align;
  TextTable table({Align::Left, Align::Right, Align::Right, Align::Right});
  table.header({"level", "kernels", "host calls", "code"});
  for (const ArtifactFigures::Level& level : figures.levels) {
    table.row({level.name, std::to_string(level.kernels), std::to_string(level.host_calls),
               human_bytes(static_cast<std::int64_t>(level.code_bytes))});
  }
  return table.to_string();
}

Json figures_json(const std::string& output, const ArtifactFigures& figures) {
  Json json{{"artifact", output},
            {"constants", figures.constants},
            {"weight_bytes", figures.weight_bytes},
            {"levels", Json::array()}};
  for (const ArtifactFigures::Level& level : figures.levels) {
    json["levels"].push_back({{"name", level.name},
                              {"kernels", level.kernels},
                              {"host_calls", level.host_calls},
                              {"code_bytes", level.code_bytes}});
  }
  return json;
}

// A session compiles such a model again for the sizes it sees; an artifact has no compiler.
std::string advice(const ArtifactFigures& figures) {
  const bool open = std::ranges::any_of(figures.levels, &ArtifactFigures::Level::sizes_decide);
  if (!open) return "";
  return "\nsizes decide branches of this model, which run on the host: --dim NAME=SIZE..SIZE fixes a size "
         "and makes "
         "kernels of what follows\n";
}

Result<ExitCode> compile_for_web(const CompileFlags& flags, const Module& module, WebOptions options,
                                 Session& session) {
  options.threads = session.threads();
  auto written = write_web_folder(module, flags.web, options);
  if (!written) return failure(std::move(written).error().in_file(flags.model));
  if (session.json) {
    session.out = Json{{"folder", flags.web},
                       {"kernels", written->kernels},
                       {"launches", written->launches},
                       {"constants", written->constants},
                       {"weight_bytes", written->weight_bytes},
                       {"shader_bytes", written->shader_bytes}}
                      .dump(1) +
                  "\n";
    return ExitCode::Done;
  }
  session.out = printable(flags.web) + ": " + std::to_string(written->kernels) + " shaders of " +
                human_bytes(static_cast<std::int64_t>(written->shader_bytes)) + " for " +
                std::to_string(written->launches) + " launches, " + std::to_string(written->constants) +
                " constants of " + human_bytes(static_cast<std::int64_t>(written->weight_bytes)) + "\n";
  return ExitCode::Done;
}

// Which of the two it is to be: --backend says what for, --web where to.
Result<bool> is_for_web(const CompileFlags& flags, Session& session) {
  const bool named = !session.flags["run.backend"].value.empty();
  XYNTRA_TRY(const std::string backend,
             named ? session.backend() : Result<std::string>(flags.web.empty() ? "cpu" : "wgsl"));
  if (backend != "cpu" && backend != "wgsl")
    return usage_error("models are compiled for the backends cpu and wgsl, not for " + backend);
  if (backend == "wgsl" && flags.web.empty())
    return usage_error("--backend wgsl needs --web DIR: shaders are compiled for browsers");
  if (backend == "cpu" && !flags.web.empty()) return usage_error("--web is for --backend wgsl");
  if (!flags.web.empty() && !flags.output.empty())
    return usage_error("--web says where to write; --output is for artifacts");
  return !flags.web.empty();
}

Result<ExitCode> compile(const CompileFlags& flags, Session& session) {
  XYNTRA_TRY(const bool for_web, is_for_web(flags, session));
  if (!for_web && !session.flags["plan.target"].value.empty())
    return usage_error("an artifact's targets follow from --cpu; --target is for --web");
  const auto budget = session.budget();
  XYNTRA_TRY(const Module module, load_model(flags.model, {.keep_undefined_ops = false, .budget = budget}));
  ArtifactOptions options;
  XYNTRA_TRY(DeclaredSizes declared, declared_sizes(module.graph, flags.plan.dims, "--dim "));
  options.ranges = std::move(declared.ranges);
  XYNTRA_TRY(options.compile, compile_options(flags.plan, session, std::move(declared.sizes)));
  if (for_web && !session.flags["plan.target"].value.empty() &&
      options.compile.target->kind != TargetKind::WebGpu)
    return usage_error("--web is for targets of WebGPU: webgpu, webgpu_software");
  if (for_web) return compile_for_web(flags, module, {options.compile, options.ranges, 0}, session);
  options.cpus.clear();
  for (std::string_view cpu : split(flags.cpus, ',')) options.cpus.emplace_back(cpu);
  options.threads = session.threads();
  options.kernel_seconds = session.config->number("limits.kernel_seconds");
  options.cache = user_cache(session);
  options.notes = [&module](const Plan& plan, const CompileOptions& made_with) {
    return explain_notes(module.graph, plan, made_with);
  };
  const std::string output = flags.output.empty() ? default_artifact(flags.model) : flags.output;
  auto written = write_artifact(module, output, options);
  if (!written) return failure(std::move(written).error().in_file(flags.model));
  session.out = session.json
                    ? figures_json(output, *written).dump(1) + "\n"
                    : printable(output) + ": " + std::to_string(written->constants) + " constants of " +
                          human_bytes(static_cast<std::int64_t>(written->weight_bytes)) + "\n\n" +
                          levels_table(*written) + advice(*written);
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_compile(Flags& syntax, Session& session) {
  auto flags = std::make_shared<CompileFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx or .xir file", "", Flag::Required});
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
