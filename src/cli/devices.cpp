// xyntra devices: the backends of this version, and what they found.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/backends.h"
#include "cli/verb.h"
#include "support/text.h"

namespace xyntra {
namespace {

using Json = nlohmann::ordered_json;

Result<ExitCode> list_devices(Session& session) {
  const int threads = session.threads();
  const std::string memory = human_bytes(session.config->integer("limits.max_memory"));
  if (session.json) {
    Json json{{"threads", threads},
              {"memory", session.config->integer("limits.max_memory")},
              {"backends", Json::array()}};
    for (const Backend& backend : all_backends()) {
      json["backends"].push_back(
          {{"name", backend.name}, {"present", backend.present}, {"summary", backend.summary}});
    }
    session.out = json.dump(2) + "\n";
    return ExitCode::Done;
  }
  TextTable table({TextTable::Align::Left, TextTable::Align::Left, TextTable::Align::Left});
  table.header({"backend", "state", "what it is"});
  for (const Backend& backend : all_backends()) {
    table.row({std::string(backend.name), backend.present ? "ready" : "not in this version",
               std::string(backend.summary)});
  }
  session.out =
      table.to_string() + "host: " + std::to_string(threads) + " threads, " + memory + " for tensors\n";
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_devices(CLI::App&, Session&) {
  return [](Session& running) { return list_devices(running); };
}

}  // namespace xyntra
