// xyntra export: a model in another form, as it was read or as a later stage left it.
#include <algorithm>

#include "cli/flags/backend_flags.h"
#include "cli/flags/plan_flags.h"
#include "compiler/compiled/cpu_backend.h"
#include "compiler/compiled/wgsl_backend.h"
#include "compiler/lock.h"
#include "compiler/model_file.h"
#include "exporters/dot.h"
#include "exporters/formulas.h"
#include "exporters/json.h"
#include "exporters/onnx.h"
#include "ir/text.h"
#include "report/explain/explain.h"
#include "report/explain/groups.h"
#include "support/files/file.h"
#include "support/text/json.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

struct ExportFlags {
  std::string model;
  std::string format = "xir";
  std::string stage = "import";
  std::string output;
  std::string lock;
  bool elide = false;
  PlanFlags plan;
};

constexpr const char* kExportFormats[] = {"xir", "dot", "json", "onnx", "formulas", "hash"};
constexpr const char* kStages[] = {"import", "rewritten", "fused", "kernels", "code"};

Status check_choice(std::span<const char* const> choices, const std::string& given, const char* what) {
  const std::vector<std::string> names(choices.begin(), choices.end());
  if (std::ranges::find(names, given) != names.end()) return {};
  return failure(unknown_name(what, given, names));
}

Status check_flags(const ExportFlags& flags) {
  XYNTRA_CHECK_OK(check_choice(kStages, flags.stage, "stage"));
  XYNTRA_CHECK_OK(check_choice(kExportFormats, flags.format, "format"));
  const bool kernels = flags.stage == "kernels" || flags.stage == "code";
  if (kernels && flags.format != "xir")
    return usage_error("kernels and code are text of their own: leave --to out");
  if (flags.stage == "import" && !flags.lock.empty())
    return usage_error("a model as it is read has no plan: --lock goes with another --stage");
  if (flags.format == "onnx" && flags.output.empty()) {
    return usage_error("an ONNX file is not text: name it with --output FILE.onnx");
  }
  return {};
}

PrintConstants constants_of(const ExportFlags& flags) {
  return flags.elide ? PrintConstants::Elided : PrintConstants::Full;
}

Result<std::string> graph_text(const Module& module, const ExportFlags& flags) {
  if (flags.format == "xir") return print_xir(module, constants_of(flags));
  if (flags.format == "dot") return export_dot(module);
  if (flags.format == "json") return graph_json(module).dump(2) + "\n";
  if (flags.format == "formulas") return export_formulas(module);
  return content_hash(module) + "\n";
}

Result<std::string> plan_as_json(const Module& model, const Module& planned, const Plan& plan,
                                 const CompileOptions& options) {
  XYNTRA_TRY(const PlanFigures figures, figures_of(model.graph, plan, options));
  Json json = graph_json(planned);
  json["format"] = "xyntra plan";
  json.update(plan_json(plan, figures));
  return json.dump(2) + "\n";
}

Result<std::string> fused_text(const Module& model, const Module& planned, const Plan& plan,
                               const CompileOptions& options, const ExportFlags& flags) {
  if (flags.format == "xir") return print_xir(planned, constants_of(flags), group_comments(plan));
  if (flags.format == "dot") return export_dot(planned, clusters_of(plan, false));
  if (flags.format == "json") return plan_as_json(model, planned, plan, options);
  if (flags.format == "formulas") return groups_as_formulas(plan);
  return content_hash(planned) + "\n";
}

Result<ExitCode> write_text(std::string text, const ExportFlags& flags, Session& session) {
  if (flags.output.empty()) {
    session.out = std::move(text);
  } else {
    XYNTRA_CHECK_OK(write_file_atomically(flags.output, std::string_view(text)));
  }
  return ExitCode::Done;
}

// Interpreters have no code of their own: that of the backend whose target it is stands for it.
Result<std::string> code_of(const Plan& plan, const Placement& placement, const ShaderOptions& shaders) {
  const Backend& backend =
      placement.backend->code != nullptr ? *placement.backend : backend_for(placement.target->kind);
  if (backend.code == nullptr)
    return unsupported("the backend " + std::string(backend.name) +
                       " writes no code yet; --stage kernels shows its kernels");
  return backend.code(plan, *placement.target, shaders);
}

Result<ExitCode> export_model(const ExportFlags& flags, Session& session) {
  XYNTRA_CHECK_OK(check_flags(flags));
  const bool as_read = flags.stage == "import", fused = flags.stage == "fused";
  XYNTRA_TRY(Module read, read_model(flags.model, flags.plan.model_inputs, session.budget(),
                                     {.keep_undefined_ops = as_read}));
  XYNTRA_TRY(const Placement placement, placement_to_plan(session));
  XYNTRA_TRY(const Planning planning, planning_for(std::move(read), flags.plan, session, placement.target));
  const Module& module = planning.module;
  const CompileOptions& options = planning.options;
  Plan plan;
  Module planned;  // the graph of the plan, with what came with the model
  if (!as_read) {
    XYNTRA_TRY(plan, flags.lock.empty() ? make_plan(module.graph, options)
                                        : load_lock_file(flags.lock, module, lock_options(options, session)));
    planned = Module{plan.graph, module.metadata, module.symbols, module.warnings};
  }
  if (flags.stage == "kernels" || flags.stage == "code") {
    XYNTRA_TRY(std::string text, flags.stage == "kernels"
                                     ? kernels_of(plan)
                                     : code_of(plan, placement, shader_options(session)));
    return write_text(std::move(text), flags, session);
  }
  const Module& written = as_read ? module : planned;
  if (flags.format == "onnx") {
    OnnxExportOptions onnx_options;
    if (fused) onnx_options.functions = clusters_of(plan, true);
    XYNTRA_CHECK_OK(write_onnx(written, flags.output, onnx_options));
    return ExitCode::Done;
  }
  XYNTRA_TRY(std::string text,
             fused ? fused_text(module, planned, plan, options, flags) : graph_text(written, flags));
  return write_text(std::move(text), flags, session);
}

}  // namespace

VerbAction declare_export(Flags& syntax, Session& session) {
  auto flags = std::make_shared<ExportFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx, .pt2, .pt or .xir file", "", Flag::Required});
  syntax.push_back({"--to", &flags->format,
                    "xir, dot, json, onnx, formulas (what each node computes), or hash of the content",
                    "FORMAT", Flag::Defaulted});
  syntax.push_back(
      {"--stage", &flags->stage,
       "import: the graph as it was read; rewritten; fused: with its groups; kernels: their loops; "
       "code: their assembly, for this CPU if the target is one it can be",
       "STAGE", Flag::Defaulted});
  syntax.push_back({"--output", &flags->output, "write here instead of standard output", "FILE"});
  syntax.push_back(
      {"--lock", &flags->lock, "with the plan of this lock, at a stage from 'rewritten' on", "FILE"});
  syntax.push_back({"--elide", &flags->elide, "leave long constants out of xir"});
  declare_backend(syntax, session);
  declare_plan_flags(syntax, session, flags->plan);
  declare_portable(syntax, session);
  return [flags](Session& running) { return export_model(*flags, running); };
}

}  // namespace xyntra
