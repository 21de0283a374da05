// xyntra check: everything a model needs that a backend lacks.
#include "cli/backends.h"
#include "cli/plan_flags.h"
#include "cli/summary.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "compiler/model_file.h"
#include "compiler/model_runner.h"
#include "compiler/pipeline.h"
#include "compiler/wgsl_backend.h"
#include "ops/infer.h"
#include "support/json.h"
#include "support/text.h"

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

// What of a model a backend lacks: operators, or what its kernels would need.
struct Lacks {
  Places operators, needs;
  bool none() const { return operators.empty() && needs.empty(); }
};

std::string places_table(const char* subject, const Places& lacking) {
  TextTable table({TextTable::Align::Left, TextTable::Align::Right, TextTable::Align::Left});
  table.header({subject, "nodes", "places"});
  for (const auto& [what, origins] : lacking) {
    table.row({printable(what), std::to_string(origins.size()), places_text(origins)});
  }
  return lacking.empty() ? "" : table.to_string();
}

std::string report_text(const std::string& model, const std::string& backend, const GraphSummary& summary,
                        const Lacks& lacking) {
  const std::string subject = printable(model) + ": " + std::to_string(summary.nodes) + " nodes, " +
                              std::to_string(summary.ops.size()) + " operators; ";
  if (lacking.none()) return subject + "'" + backend + "' has everything it needs\n";
  return subject + "'" + backend + "' lacks " +
         std::to_string(lacking.operators.size() + lacking.needs.size()) + "\n" +
         places_table("operator", lacking.operators) + places_table("need", lacking.needs);
}

Json report_json(const std::string& model, const std::string& backend, const GraphSummary& summary,
                 const Lacks& lacking) {
  Json json{
      {"model", model}, {"backend", backend}, {"graph", to_json(summary)}, {"supported", lacking.none()}};
  json["lacking"] = Json::array();
  for (const auto& [op, origins] : lacking.operators) {
    json["lacking"].push_back({{"op", op}, {"nodes", origins.size()}, {"places", origins}});
  }
  for (const auto& [need, origins] : lacking.needs) {
    json["lacking"].push_back({{"need", need}, {"nodes", origins.size()}, {"places", origins}});
  }
  return json;
}

// What the kernels of the model need of a device: they are made for it, and not run.
Result<Places> needs_of(const Planning& planning, const Session& session) {
  XYNTRA_TRY(const Plan plan, make_plan(planning.module.graph, planning.options));
  return wgsl_lacks(plan, {session.threads(), session.budget()}, shader_options(session));
}

struct CheckFlags {
  std::string model;
  PlanFlags planning;
};

Result<ExitCode> check(const CheckFlags& flags, Session& session) {
  const std::string& model = flags.model;
  XYNTRA_TRY(const std::string backend, session.backend());
  XYNTRA_TRY(const Module module,
             load_model(model, {.keep_undefined_ops = true, .budget = session.budget()}));
  Lacks lacking{undefined_ops(module.graph), {}};
  if (lacking.operators.empty() && backend == "wgsl") {
    XYNTRA_TRY(Planning planning, planning_for(module, flags.planning, session));
    XYNTRA_TRY(planning.options.target, target_of_backend(backend));
    auto needs = needs_of(planning, session);
    if (!needs) return failure(std::move(needs).error().in_file(model));
    lacking.needs = std::move(*needs);
  }
  const GraphSummary summary = summarize(module.graph);
  session.out = session.json ? report_json(model, backend, summary, lacking).dump(2) + "\n"
                             : report_text(model, backend, summary, lacking);
  return lacking.none() ? ExitCode::Done : ExitCode::No;
}

}  // namespace

VerbAction declare_check(Flags& syntax, Session& session) {
  auto flags = std::make_shared<CheckFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx or .xir file", "", Flag::Required});
  declare_backend(syntax, session);
  declare_dim(syntax, flags->planning.dims, "to count costs with");
  declare_portable(syntax, session);
  declare_device(syntax, session);
  return [flags](Session& running) { return check(*flags, running); };
}

}  // namespace xyntra
