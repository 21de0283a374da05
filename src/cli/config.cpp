// xyntra config: the settings in effect, and where each came from.
#include "cli/terminal.h"
#include "cli/verb.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

Json to_json(const SettingValue& value) {
  return std::visit([](const auto& payload) { return Json(payload); }, value);
}

const char* name_of(SettingType type) {
  switch (type) {
    case SettingType::Boolean: return "boolean";
    case SettingType::Integer: return "integer";
    case SettingType::Number: return "number";
    case SettingType::Bytes: return "bytes";
    case SettingType::Text: return "text";
  }
  return "";
}

Result<ExitCode> print_config(Session& session) {
  const Config& config = *session.config;
  if (session.json) {
    Json json{{"file", config.file() ? Json(*config.file()) : Json()}, {"settings", Json::object()}};
    for (const Config::Entry& entry : config.entries()) {
      json["settings"][entry.setting.key] = {
          {"value", to_json(entry.value)},       {"from", entry.origin.to_string()},
          {"type", name_of(entry.setting.type)}, {"default", entry.setting.default_text},
          {"help", entry.setting.help},          {"choices", entry.setting.choices}};
    }
    session.out = json.dump(2) + "\n";
    return ExitCode::Done;
  }
  using enum Table::Align;
  Table table({Left, Name, Name, Prose});
  table.header({"setting", "value", "from", "what it is"});
  for (const Config::Entry& entry : config.entries()) {
    table.row(
        {entry.setting.key, printable(entry.shown), printable(entry.origin.to_string()), entry.setting.help});
  }
  session.out = "file: " + (config.file() ? printable(*config.file()) : "none") + "\n" +
                table.to_string(stdout_width());
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_config(Flags& syntax, Session& session) {
  declare_backend(syntax, session);
  declare_setting(syntax, session, "--seed", "run.seed", "N", "of random inputs");
  return [](Session& running) { return print_config(running); };
}

}  // namespace xyntra
