// xyntra cache: what machine code is kept on disk.
#include "cli/terminal.h"
#include "cli/user_cache.h"
#include "cli/verb.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

const std::vector<std::string> kActions = {"show", "list", "path", "clear"};

struct CacheFlags {
  std::string action = "show";
};

std::string idle_text(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (seconds >= kDay) return std::to_string(seconds / kDay) + " d";
  if (seconds >= kHour) return std::to_string(seconds / kHour) + " h";
  if (seconds >= kMinute) return std::to_string(seconds / kMinute) + " min";
  return std::to_string(seconds) + " s";
}

void list_entries(const ObjectCache& cache, Session& session) {
  if (session.json) {
    Json json{{"folder", cache.folder()}, {"entries", Json::array()}};
    for (const ObjectCache::Entry& entry : cache.entries())
      json["entries"].push_back(
          {{"name", entry.name}, {"bytes", entry.bytes}, {"idle_seconds", entry.idle_seconds}});
    session.out = json.dump(1) + "\n";
    return;
  }
  using enum Table::Align;
  Table table({Name, Right, Right});
  table.header({"entry", "size", "not used for"});
  for (const ObjectCache::Entry& entry : cache.entries())
    table.row({printable(entry.name), human_bytes(entry.bytes), idle_text(entry.idle_seconds)});
  session.out = table.to_string(stdout_width());
}

void show_usage(const ObjectCache& cache, Session& session) {
  const ObjectCache::Usage usage = cache.usage();
  if (session.json) {
    session.out = Json{{"folder", cache.is_on() ? Json(cache.folder()) : Json()},
                       {"problem", cache.problem()},
                       {"entries", usage.entries},
                       {"bytes", usage.bytes},
                       {"cap_bytes", cache.cap_bytes()}}
                      .dump(1) +
                  "\n";
    return;
  }
  if (!cache.is_on()) {
    session.out =
        "no cache: " + (cache.problem().empty() ? "cache.max_bytes is 0" : printable(cache.problem())) + "\n";
    return;
  }
  session.out = printable(cache.folder()) + ": " + std::to_string(usage.entries) +
                (usage.entries == 1 ? " entry, " : " entries, ") + human_bytes(usage.bytes) + " of at most " +
                human_bytes(cache.cap_bytes()) + "\n";
}

Result<ExitCode> run_cache(const CacheFlags& flags, Session& session) {
  const ObjectCache cache = ObjectCache::standard(session.config->integer("cache.max_bytes"));
  if (flags.action == "show") {
    show_usage(cache, session);
  } else if (flags.action == "list") {
    list_entries(cache, session);
  } else if (flags.action == "path") {
    session.out =
        (session.json ? Json{{"folder", cache.folder()}}.dump(1) : printable(cache.folder())) + "\n";
  } else if (flags.action == "clear") {
    const ObjectCache::Usage before = cache.usage();
    cache.clear();
    session.out = session.json ? Json{{"cleared", before.entries}, {"bytes", before.bytes}}.dump(1) + "\n"
                               : std::to_string(before.entries) + " entries deleted, " +
                                     human_bytes(before.bytes) + "\n";
  } else {
    return failure(unknown_name("action", flags.action, kActions));
  }
  return ExitCode::Done;
}

}  // namespace

ObjectCache user_cache(const Session& session) {
  ObjectCache cache = ObjectCache::standard(session.config->integer("cache.max_bytes"));
  if (!cache.problem().empty())
    write_stderr("warning: machine code is not kept: " + printable(cache.problem()) + "\n");
  return cache;
}

VerbAction declare_cache(Flags& syntax, Session&) {
  auto flags = std::make_shared<CacheFlags>();
  syntax.push_back({"ACTION", &flags->action, "list, clear, path; else how full it is"});
  return [flags](Session& running) { return run_cache(*flags, running); };
}

}  // namespace xyntra
