// xyntra check: everything a model needs that a backend is missing; of an artifact, what is damaged.
#include "cli/artifact/check_artifact.h"
#include "cli/flags/backend_flags.h"
#include "cli/flags/plan_flags.h"
#include "cli/summary.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "compiler/model_file.h"
#include "compiler/pipeline.h"
#include "ops/infer.h"
#include "package/artifact.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

using Places = std::map<std::string, std::vector<std::string>>;

constexpr std::size_t kShownPlaces = 3;

std::string places_text(const std::vector<std::string>& origins) {
  std::string text;
  for (std::size_t i = 0; i < std::min(origins.size(), kShownPlaces); ++i) {
    text += (i == 0 ? "" : ", ") + printable(origins[i].empty() ? "(unnamed)" : origins[i]);
  }
  if (origins.size() > kShownPlaces) text += ", … " + std::to_string(origins.size() - kShownPlaces) + " more";
  return text;
}

// What a backend is missing for a model: operators, or what its kernels would need.
struct MissingFeatures {
  Places operators, needs;
  bool none() const { return operators.empty() && needs.empty(); }
};

std::string places_table(const char* subject, const Places& missing) {
  using enum Table::Align;
  Table table({Prose, Right, Prose});
  table.header({subject, "nodes", "places"});
  for (const auto& [what, origins] : missing) {
    table.row({printable(what), std::to_string(origins.size()), places_text(origins)});
  }
  return missing.empty() ? "" : table.to_string(stdout_width());
}

std::string report_text(const std::string& model, const std::string& placement, const GraphSummary& summary,
                        const MissingFeatures& missing) {
  const std::string subject = printable(model) + ": " + std::to_string(summary.nodes) + " nodes, " +
                              std::to_string(summary.ops.size()) + " operators\n" + "on " + placement + ": ";
  if (missing.none()) return subject + "everything it needs is there\n";
  return subject + std::to_string(missing.operators.size() + missing.needs.size()) + " missing\n" +
         places_table("operator", missing.operators) + places_table("need", missing.needs);
}

Json report_json(const GraphSummary& summary, const MissingFeatures& missing) {
  Json json{{"graph", to_json(summary)}, {"supported", missing.none()}};
  json["missing"] = Json::array();
  for (const auto& [op, origins] : missing.operators) {
    json["missing"].push_back({{"op", op}, {"nodes", origins.size()}, {"places", origins}});
  }
  for (const auto& [need, origins] : missing.needs) {
    json["missing"].push_back({{"need", need}, {"nodes", origins.size()}, {"places", origins}});
  }
  return json;
}

struct CheckFlags {
  std::string model;
  bool strict = false;
  PlanFlags planning;
};

Result<ExitCode> check(const CheckFlags& flags, Session& session) {
  const std::string& model = flags.model;
  if (is_artifact(model)) return check_artifact(model, session);
  XYNTRA_TRY(const Placement placement, placement_to_run(session));
  XYNTRA_TRY(const Module module, read_model(model, flags.planning.model_inputs, session.budget(),
                                             {.strict = flags.strict, .keep_undefined_ops = true}));
  MissingFeatures missing{undefined_ops(module.graph), {}};
  SymbolBindings sizes;  // that were planned for
  if (missing.operators.empty() && placement.target != nullptr) {
    XYNTRA_TRY(Planning planning, planning_for(module, flags.planning, session, placement.target));
    sizes = planning.sizes;
    if (placement.backend->missing != nullptr) {
      XYNTRA_TRY(const Plan plan, make_plan(planning.module.graph, planning.options));
      RunSettings settings;
      settings.running.threads = session.threads();
      settings.running.budget = session.budget();
      settings.shaders = shader_options(session);
      auto needs = placement.backend->missing(plan, settings);
      if (!needs) return failure(std::move(needs).error().in_file(model));
      missing.needs = std::move(*needs);
    }
  }
  const GraphSummary summary = summarize(module.graph);
  if (session.json) {
    Json json{{"model", model}};
    add_placement(json, placement, sizes);
    json.update(report_json(summary, missing));
    json["warnings"] = module.warnings;
    session.out = json.dump(2) + "\n";
  } else {
    session.out = report_text(model, placement_phrase(placement, sizes), summary, missing);
    for (const std::string& warning : module.warnings) session.out += "warning: " + printable(warning) + "\n";
  }
  return missing.none() ? ExitCode::Done : ExitCode::No;
}

}  // namespace

VerbAction declare_check(Flags& syntax, Session& session) {
  auto flags = std::make_shared<CheckFlags>();
  syntax.push_back({"MODEL", &flags->model,
                    "a .onnx, .pt2, .pt or .xir file; an artifact: is it as it was written?", "",
                    Flag::Required});
  syntax.push_back({"--strict", &flags->strict, "a declared shape that is not the inferred one is an error"});
  declare_backend(syntax, session);
  declare_dim(syntax, flags->planning.dims, "to count costs with");
  declare_model_inputs(syntax, flags->planning.model_inputs);
  declare_portable(syntax, session);
  declare_device(syntax, session);
  return [flags](Session& running) { return check(*flags, running); };
}

}  // namespace xyntra
