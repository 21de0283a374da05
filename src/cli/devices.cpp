// xyntra devices: the backends of this version, what they found, and the targets plans can be made for.
#include "cli/backends.h"
#include "cli/verb.h"
#include "support/json.h"
#include "support/text.h"
#include "target/target.h"

namespace xyntra {
namespace {

// Of the whole device, in units of a thousand a microsecond: GFLOP/s and GB/s.
std::int64_t f32_gflops(const Target& target) { return target.peak(DType::F32) * target.cores / 1000; }
std::int64_t memory_gigabytes(const Target& target) { return target.memory_bytes_per_us / 1000; }

Json targets_json() {
  Json list = Json::array();
  for (const Target& target : targets()) {
    Json facts;
#define FACT(fact, unit, meaning) facts[#fact] = target.fact;
#include "target/facts.def"
#undef FACT
    list.push_back({{"name", target.name},
                    {"kind", name_of(target.kind)},
                    {"summary", target.summary},
                    {"hash", target.hash()},
                    {"facts", facts}});
  }
  return list;
}

std::string targets_table() {
  using enum TextTable::Align;
  TextTable table({Left, Right, Right, Right, Right, Left});
  table.header({"target", "cores", "f32 GFLOP/s", "GB/s", "launch ns", "what it is"});
  for (const Target& target : targets()) {
    table.row({std::string(target.name), std::to_string(target.cores), std::to_string(f32_gflops(target)),
               std::to_string(memory_gigabytes(target)), std::to_string(target.launch_ns),
               std::string(target.summary)});
  }
  return table.to_string();
}

Result<ExitCode> list_devices(Session& session) {
  const int threads = session.threads();
  const std::string memory = human_bytes(session.config->integer("limits.max_memory"));
  if (session.json) {
    Json json{{"threads", threads},
              {"memory", session.config->integer("limits.max_memory")},
              {"target", host_target().name},
              {"backends", Json::array()},
              {"targets", targets_json()}};
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
  session.out = table.to_string() + "\n" + targets_table() + "\nhost: " + std::to_string(threads) +
                " threads, " + memory + " for tensors, target " + std::string(host_target().name) + "\n";
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_devices(Flags&, Session&) {
  return [](Session& running) { return list_devices(running); };
}

}  // namespace xyntra
