// xyntra lock: a plan written to a file; xyntra lock diff: what changed from one to another.
#include "cli/flags/plan_flags.h"
#include "cli/verb.h"
#include "compiler/model_file.h"
#include "report/lock_diff.h"
#include "support/files/file.h"
#include "support/hash/sha256.h"
#include "support/text/json.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

struct LockFlags {
  std::vector<std::string> arguments;  // MODEL, or diff A B
  std::string output;
  PlanFlags plan;
};

std::string default_path(const std::string& model) {
  const std::size_t dot = model.rfind('.');
  return (dot == std::string::npos ? model : model.substr(0, dot)) + ".lock";
}

Result<ExitCode> write_lock(const LockFlags& flags, Session& session) {
  const std::string& path = flags.arguments[0];
  XYNTRA_TRY(Module read, read_model(path, flags.plan.model_inputs, session.budget()));
  XYNTRA_TRY(const Placement placement, placement_to_plan(session));
  XYNTRA_TRY(const Planning planning, planning_for(std::move(read), flags.plan, session, placement.target));
  const Module& module = planning.module;
  const CompileOptions& options = planning.options;
  auto made = make_lock(module, options);
  if (!made) return failure(std::move(made).error().in_file(path));
  XYNTRA_TRY(const std::vector<std::string> broken,
             broken_contract(module.graph, made->plan, options, session));
  if (!broken.empty()) {
    const Json json{{"contract", {{"kept", false}, {"broken", broken}}}};
    session.out = session.json ? json.dump(1) + "\n" : broken_text(broken) + "no lock was written\n";
    return ExitCode::No;
  }
  const std::string output = flags.output.empty() ? default_path(path) : flags.output;
  XYNTRA_CHECK_OK(write_file_atomically(output, std::string_view(made->text)));
  const Plan& plan = made->plan;
  if (session.json) {
    const Json json{{"lock", output},
                    {"sha256", sha256_hex(std::string_view(made->text))},
                    {"bytes", made->text.size()},
                    {"model", plan.model_hash},
                    {"backend", placement.backend->name},
                    {"target", plan.target},
                    {"target_hash", plan.target_hash},
                    {"configuration", plan.configuration_hash},
                    {"sizes", planning.sizes},
                    {"nodes", plan.graph.node_count()},
                    {"rules", plan.certificate.size()},
                    {"groups", plan.groups.size()},
                    {"slots", plan.memory.slots.size()}};
    session.out = json.dump(1) + "\n";
    return ExitCode::Done;
  }
  session.out = printable(output) + ": " + std::to_string(plan.graph.node_count()) + " nodes in " +
                std::to_string(plan.groups.size()) + " groups, " +
                human_bytes(static_cast<std::int64_t>(made->text.size())) + "\n" + placement_text(placement) +
                sizes_text(planning.sizes, planning.assumed);
  return ExitCode::Done;
}

Result<ExitCode> compare_locks(const std::string& before, const std::string& after, Session& session) {
  XYNTRA_TRY(const Lock a, read_lock_file(before));
  XYNTRA_TRY(const Lock b, read_lock_file(after));
  const std::vector<LockChange> changes = changes_between(a, b);
  if (session.json) {
    Json json{{"same", changes.empty()}, {"changes", Json::array()}};
    for (const LockChange& change : changes)
      json["changes"].push_back({{"kind", name_of(change.kind)}, {"text", change.text}});
    session.out = json.dump(1) + "\n";
  } else {
    for (const LockChange& change : changes)
      session.out += std::string(name_of(change.kind)) + ": " + printable(change.text) + "\n";
    if (changes.empty()) session.out = "no difference\n";
  }
  return changes.empty() ? ExitCode::Done : ExitCode::No;
}

Result<ExitCode> run_lock(const LockFlags& flags, Session& session) {
  if (flags.arguments[0] != "diff") {
    if (flags.arguments.size() == 1) return write_lock(flags, session);
    return usage_error("one model is locked at a time; to compare two locks: xyntra lock diff A B");
  }
  if (flags.arguments.size() != 3) return usage_error("two locks are needed: xyntra lock diff A B");
  return compare_locks(flags.arguments[1], flags.arguments[2], session);
}

}  // namespace

VerbAction declare_lock(Flags& syntax, Session& session) {
  auto flags = std::make_shared<LockFlags>();
  syntax.push_back({"MODEL",
                    &flags->arguments,
                    "a .onnx, .pt2, .pt or .xir file; or: diff LOCK LOCK",
                    "",
                    Flag::Required,
                    {},
                    3});
  syntax.push_back(
      {"-o,--output", &flags->output, "where to write it; else beside the model, ending in .lock", "FILE"});
  declare_backend(syntax, session);
  declare_plan_flags(syntax, session, flags->plan);
  declare_contract_flags(syntax, session);
  return [flags](Session& running) { return run_lock(*flags, running); };
}

}  // namespace xyntra
