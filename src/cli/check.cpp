// xyntra check: everything a model needs that a backend lacks.
#include "cli/summary.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "compiler/model_file.h"
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

std::string report_text(const std::string& model, const std::string& backend, const GraphSummary& summary,
                        const Places& lacking) {
  const std::string subject = printable(model) + ": " + std::to_string(summary.nodes) + " nodes, " +
                              std::to_string(summary.ops.size()) + " operators; ";
  if (lacking.empty()) return subject + "'" + backend + "' has everything it needs\n";
  TextTable table({TextTable::Align::Left, TextTable::Align::Right, TextTable::Align::Left});
  table.header({"operator", "nodes", "places"});
  for (const auto& [op, origins] : lacking) {
    table.row({printable(op), std::to_string(origins.size()), places_text(origins)});
  }
  return subject + "'" + backend + "' lacks " + std::to_string(lacking.size()) + "\n" + table.to_string();
}

Json report_json(const std::string& model, const std::string& backend, const GraphSummary& summary,
                 const Places& lacking) {
  Json json{
      {"model", model}, {"backend", backend}, {"graph", to_json(summary)}, {"supported", lacking.empty()}};
  json["lacking"] = Json::array();
  for (const auto& [op, origins] : lacking) {
    json["lacking"].push_back({{"op", op}, {"nodes", origins.size()}, {"places", origins}});
  }
  return json;
}

Result<ExitCode> check(const std::string& model, Session& session) {
  XYNTRA_TRY(const std::string backend, session.backend());
  XYNTRA_TRY(const Module module,
             load_model(model, {.keep_undefined_ops = true, .budget = session.budget()}));
  const Places lacking = undefined_ops(module.graph);
  const GraphSummary summary = summarize(module.graph);
  session.out = session.json ? report_json(model, backend, summary, lacking).dump(2) + "\n"
                             : report_text(model, backend, summary, lacking);
  return lacking.empty() ? ExitCode::Done : ExitCode::No;
}

}  // namespace

VerbAction declare_check(Flags& syntax, Session& session) {
  auto model = std::make_shared<std::string>();
  syntax.push_back({"MODEL", model.get(), "a .onnx or .xir file", "", Flag::Required});
  declare_backend(syntax, session);
  return [model](Session& running) { return check(*model, running); };
}

}  // namespace xyntra
