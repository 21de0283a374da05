// xyntra config: the settings in effect, and where each came from.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "support/text.h"

namespace xyntra {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const SettingValue& value) {
  return std::visit([](const auto& payload) { return Json(payload); }, value);
}

Result<ExitCode> print_config(Session& session) {
  const Config& config = *session.config;
  if (session.json) {
    Json json{{"file", config.file() ? Json(*config.file()) : Json()}, {"settings", Json::object()}};
    for (const Config::Entry& entry : config.entries()) {
      json["settings"][entry.setting.key] = {{"value", to_json(entry.value)},
                                             {"from", entry.origin.to_string()}};
    }
    session.out = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    return ExitCode::Done;
  }
  TextTable table(
      {TextTable::Align::Left, TextTable::Align::Left, TextTable::Align::Left, TextTable::Align::Left});
  table.header({"setting", "value", "from", "what it is"});
  for (const Config::Entry& entry : config.entries()) {
    table.row(
        {entry.setting.key, printable(entry.shown), printable(entry.origin.to_string()), entry.setting.help});
  }
  session.out = "file: " + (config.file() ? printable(*config.file()) : "none") + "\n" + table.to_string();
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_config(CLI::App& app, Session& session) {
  declare_backend(app, session);
  declare_setting(app, session, "--seed", "run.seed", "N", "of random inputs");
  return [](Session& running) { return print_config(running); };
}

}  // namespace xyntra
