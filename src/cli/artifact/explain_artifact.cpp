#include "cli/artifact/explain_artifact.h"

#include <algorithm>

#include "cli/flags/plan_flags.h"
#include "cli/terminal.h"
#include "plan/text.h"
#include "report/figures.h"
#include "runtime/artifact/artifact.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

// One of the CPUs that the artifact has code for, and the plan that the code was made from.
struct LevelContents {
  const ArtifactLevel* level = nullptr;
  Plan plan;
  std::size_t kernels = 0, host_calls = 0, code_bytes = 0;
  bool here = false;  // the one that this machine takes
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<LevelContents> contents_of(const Artifact& artifact, const ArtifactLevel& level) {
  LevelContents contents;
  contents.level = &level;
  XYNTRA_TRY(const auto plan, artifact.entry(entry_of_level(level, "plan")));
  XYNTRA_TRY(Lock lock, parse_lock(text_of(plan)));
  contents.plan = std::move(lock.plan);
  for (const Group& group : contents.plan.groups) {
    contents.kernels += is_kernel(group) ? 1 : 0;
    contents.host_calls += group.hero == Hero::Host ? 1 : 0;
  }
  const std::string code = entry_of_level(level, "code");
  if (artifact.has(code)) {
    XYNTRA_TRY(const auto bytes, artifact.entry(code));
    contents.code_bytes = bytes.size();
  }
  return contents;
}

std::string needs_of(const ArtifactLevel& level) {
  const std::string features = joined(level.features, " ");
  return level.architecture + (!level.cpu.empty() ? ", this kind of CPU only"
                               : features.empty() ? ""
                                                  : ", " + features);
}

std::string levels_table(const std::vector<LevelContents>& levels) {
  using enum Table::Align;
  Table table({Left, Left, Right, Right, Right, Right, Right, Prose});
  table.header({"code for", "plan for", "kernels", "host calls", "buffers", "arena slots", "code", "needs"});
  for (const LevelContents& one : levels) {
    const MemoryPlan& memory = one.plan.memory;
    table.row({one.level->name + (one.here ? " *" : ""), printable(one.plan.target),
               std::to_string(one.kernels), std::to_string(one.host_calls),
               std::to_string(memory.assignments.size()), std::to_string(memory.slots.size()),
               human_bytes(static_cast<std::int64_t>(one.code_bytes)), needs_of(*one.level)});
  }
  return table.to_string(stdout_width());
}

std::string interface_table(const Graph& graph) {
  using enum Table::Align;
  Table table({Left, Name, Left});
  table.header({"", "name", "type"});
  for (ValueId id : graph.inputs)
    table.row({"input", printable(graph.value(id).name), printable(graph.value(id).type.to_string())});
  for (ValueId id : graph.outputs)
    table.row({"output", printable(graph.value(id).name), printable(graph.value(id).type.to_string())});
  return table.to_string(stdout_width());
}

Json values_json(const Graph& graph, const std::vector<ValueId>& values) {
  Json list = Json::array();
  for (ValueId id : values)
    list.push_back({{"name", graph.value(id).name}, {"type", graph.value(id).type.to_string()}});
  return list;
}

Json levels_json(const std::vector<LevelContents>& levels) {
  Json list = Json::array();
  for (const LevelContents& one : levels) {
    list.push_back({{"name", one.level->name},
                    {"target", one.plan.target},
                    {"here", one.here},
                    {"architecture", one.level->architecture},
                    {"features", one.level->features},
                    {"kernels", one.kernels},
                    {"host_calls", one.host_calls},
                    {"buffers", one.plan.memory.assignments.size()},
                    {"arena_slots", one.plan.memory.slots.size()},
                    {"code_bytes", one.code_bytes}});
  }
  return list;
}

}  // namespace

Result<ExitCode> explain_artifact(const std::string& path, Session& session) {
  const auto in_file = [&](Error error) { return failure(std::move(error).in_file(path)); };
  auto artifact = Artifact::open(path);
  if (!artifact) return in_file(std::move(artifact).error());
  const Artifact& file = **artifact;
  const auto here = file.level_for_this_machine();
  std::vector<LevelContents> levels;
  for (const ArtifactLevel& level : file.manifest().levels) {
    auto contents = contents_of(file, level);
    if (!contents) return in_file(std::move(contents).error());
    contents->here = here && *here == &level;
    levels.push_back(std::move(*contents));
  }
  if (levels.empty()) return in_file(Error{ErrorClass::BadModel, "it holds no code", {}, {}, {}, {}, false});
  const auto running = std::ranges::find(levels, true, &LevelContents::here);
  const LevelContents& shown = running == levels.end() ? levels.front() : *running;
  XYNTRA_TRY(const Target* target, find_target(shown.plan.target));
  const Placement placement = placement_of(*target);
  const Graph& graph = shown.plan.graph;
  const auto weights = static_cast<std::int64_t>(file.weight_bytes());
  if (session.json) {
    Json json{{"model", path}};
    add_placement(json, placement, shown.plan.nominal);
    json.update({{"version", file.manifest().version},
                 {"weight_bytes", weights},
                 {"levels", levels_json(levels)},
                 {"inputs", values_json(graph, graph.inputs)},
                 {"outputs", values_json(graph, graph.outputs)}});
    session.out = json.dump(1) + "\n";
    return ExitCode::Done;
  }
  session.out =
      labelled("model", printable(path) + ": written by xyntra " + printable(file.manifest().version) + ", " +
                            human_bytes(weights) + " of prepacked weights") +
      placement_text(placement) + sizes_text(shown.plan.nominal, {}) + "\n" + levels_table(levels) +
      (running == levels.end() ? "this machine runs none of it\n" : "* runs here\n") + "\n" +
      interface_table(graph);
  const std::string note = entry_of_level(*shown.level, "explain");
  if (!file.has(note)) return ExitCode::Done;
  XYNTRA_TRY(const auto text, file.entry(note));
  session.out += "\nexplain said of it when it was compiled for " + shown.level->name + ":\n\n";
  // The file is somebody else's: its lines are shown, its control characters are not.
  for (std::string_view line : split(trimmed(text_of(text)), '\n')) session.out += printable(line) + "\n";
  return ExitCode::Done;
}

}  // namespace xyntra
