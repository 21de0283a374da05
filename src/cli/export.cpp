// xyntra export: a model in another form.
#include <CLI/CLI.hpp>

#include "cli/model_file.h"
#include "cli/verb.h"
#include "compiler/pipeline.h"
#include "exporters/dot.h"
#include "exporters/formulas.h"
#include "exporters/json.h"
#include "exporters/onnx.h"
#include "ir/text.h"
#include "report/groups.h"
#include "rewrite/rewrite.h"
#include "rewrite/user_rules.h"
#include "support/file.h"
#include "support/text.h"

namespace xyntra {
namespace {

struct ExportFlags {
  std::string model;
  std::string format = "xir";
  std::string stage = "import";
  std::string output;
  bool elide = false;
};

Result<std::string> text_of(const Module& module, const ExportFlags& flags) {
  if (flags.format == "xir")
    return print_xir(module, flags.elide ? PrintConstants::Elided : PrintConstants::Full);
  if (flags.format == "dot") return export_dot(module);
  if (flags.format == "json") return export_json(module);
  if (flags.format == "formulas") return export_formulas(module);
  if (flags.format == "hash") return content_hash(module) + "\n";
  return usage_error("there is no format '" + flags.format +
                     "': it is xir, dot, json, onnx, formulas or hash");
}

Result<ExitCode> export_model(const ExportFlags& flags, Session& session) {
  if (flags.stage != "import" && flags.stage != "fused" && flags.stage != "rewritten")
    return unsupported("the stage '" + flags.stage + "' is not part of this version");
  if (flags.format == "onnx" && flags.output.empty()) {
    return usage_error("an ONNX file is not text: name it with --output FILE.onnx");
  }
  const bool rewritten = flags.stage == "rewritten";
  const auto budget = session.budget();
  XYNTRA_TRY(Module module, load_model(flags.model, {.keep_undefined_ops = !rewritten, .budget = budget}));
  if (rewritten) {
    XYNTRA_TRY(RewriteOptions options, rewrite_options_of(*session.config));
    options.budget = budget.get();
    XYNTRA_TRY(RewriteResult result, rewrite(module.graph, options));
    module.graph = std::move(result.graph);
  }
  if (flags.format == "onnx") {
    XYNTRA_CHECK_OK(write_onnx(module, flags.output));
    return ExitCode::Done;
  }
  std::string text;
  if (flags.stage == "fused") {
    CompileOptions options;
    XYNTRA_TRY(options.target, find_target("generic"));
    XYNTRA_TRY(options.rewrite, rewrite_options_of(*session.config));
    options.budget = session.budget();
    XYNTRA_TRY(const Plan plan, make_plan(module.graph, options));
    XYNTRA_TRY(text, groups_as_formulas(plan));
    text += groups_table(plan);
  } else {
    XYNTRA_TRY(text, text_of(module, flags));
  }
  if (flags.output.empty()) {
    session.out = std::move(text);
  } else {
    XYNTRA_CHECK_OK(write_file_atomically(flags.output, std::string_view(text)));
  }
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_export(CLI::App& app, Session& session) {
  auto flags = std::make_shared<ExportFlags>();
  app.add_option("MODEL", flags->model, "a .onnx or .xir file")->required();
  app.add_option("--to", flags->format,
                 "xir, dot, json, onnx, formulas (what each node computes), or hash of the content")
      ->type_name("FORMAT")
      ->capture_default_str();
  app.add_option("--stage", flags->stage,
                 "import: the graph as it was read; rewritten: after the rules; fused: as groups")
      ->type_name("STAGE")
      ->capture_default_str();
  app.add_option("--output", flags->output, "write here instead of standard output")->type_name("FILE");
  declare_setting(app, session, "--forbid", "rewrite.forbid", "CLASS",
                  "rules that are not applied: reassociating, precision-changing and none");
  app.add_flag("--elide", flags->elide, "leave long constants out of xir");
  return [flags](Session& running) { return export_model(*flags, running); };
}

}  // namespace xyntra
