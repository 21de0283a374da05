// The flags of every verb that makes a plan: for which target and sizes, by which steps, within which contract.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "cli/inputs/model_inputs.h"
#include "cli/verb.h"
#include "compiler/lock.h"
#include "support/text/json.h"

namespace xyntra {

struct PlanFigures;

struct PlanFlags {
  std::vector<std::string> dims;  // "seq=128", "seq=1..512"
  ModelInputFlags model_inputs;
  std::vector<std::string> donated;  // names of inputs, or "*"
  std::set<std::string> off;  // names of steps
  std::vector<std::string> barred;  // names of forms
  std::string dump_after;
};

// Where plans are to run, and what they are made for.
struct Placement {
  const Backend* backend = nullptr;
  const Target* target = nullptr;  // null: the backend runs a model as it is written
};
// Of a verb that runs what it plans: --backend, else run.backend; --target where the backend runs plans for it, else the
// backend's own.
Result<Placement> placement_to_run(const Session& session);
// Of a verb that only plans, for any target; the backend is that of the target where nobody names one.
Result<Placement> placement_to_plan(const Session& session);
Placement placement_of(const Target& target);  // of a plan that was made for it
// Of an artifact's level that this machine runs; "native" is for just its kind of CPU.
Result<Placement> placement_of_level(const std::string& level);
// Lines "backend", "target" and "sizes" of a report.
std::string placement_text(const Placement& placement);
std::string sizes_text(const SymbolBindings& sizes, const std::vector<std::string>& assumed);
// What failed may be due to sizes that nobody gave, such as more positions than an embedding has: the hint names them.
Error with_assumed_sizes(Error error, const SymbolBindings& sizes, const std::vector<std::string>& assumed);
// "cpu, target avx2, batch=1 seq=128": the same in a phrase.
std::string placement_phrase(const Placement& placement, const SymbolBindings& sizes);
void add_placement(Json& json, const Placement& placement, const SymbolBindings& sizes);

void declare_dim(Flags& syntax, std::vector<std::string>& dims, const std::string& what_for);
// --target, --dim, --donate, --forbid, --precision, --no-STEP for every step that can be turned off
void declare_plan_flags(Flags& syntax, Session& session, PlanFlags& flags);
void declare_target(Flags& syntax, Session& session);
void declare_donate(Flags& syntax, PlanFlags& flags);
void declare_forbid(Flags& syntax, Session& session);
void declare_steps(Flags& syntax, PlanFlags& flags);  // --no-STEP, --bar
// --precision; what it says, a Usage error where it is forbidden
void declare_precision_flag(Flags& syntax, Session& session);
Result<Precision> precision_of(const Session& session);
// --max-kernels, --max-bytes, --no-fallback
void declare_contract_flags(Flags& syntax, Session& session);

// `nominal`: sizes to count costs with.
Result<CompileOptions> compile_options(const PlanFlags& flags, const Session& session, const Target* target,
                                       SymbolBindings nominal = {});
// A model as it is planned: with the ranges that --dim declares, sizes of one value being fixed as xyntra compile fixes
// them. `options` count costs with the sizes that --dim gives.
struct Planning {
  Module module;
  CompileOptions options;
  SymbolBindings sizes;  // all of them
  std::vector<std::string> assumed;  // those that nobody gave
};
// The sizes to count costs with: a plan knows no ranges, so where these exclude the usual size of what nobody gave,
// that is said, too.
SymbolBindings nominal_within(const SymbolRanges& ranges, SymbolBindings given, const SymbolBindings& all);
Result<Planning> planning_for(Module module, const PlanFlags& flags, const Session& session,
                              const Target* target);
// Usage error where flags about plans go with a backend that runs none.
Status check_plan_flags(const Backend& backend, const PlanFlags& flags, const Session& session);
// How a lock is replayed under these options: without what they forbid, and for their target where somebody chose one.
LockOptions lock_options(const CompileOptions& options, const Session& session);

bool has_contract(const Session& session);  // whether plans are asked to keep anything
// What of the contract, and of the patterns of fusion.toml, the plan breaks: a sentence each, none when it is kept.
Result<std::vector<std::string>> broken_contract(const Graph& model, const Plan& plan,
                                                 const CompileOptions& options, const Session& session);
Result<std::vector<std::string>> broken_contract(const Plan& plan, const PlanFigures& figures,
                                                 const Session& session);
std::string broken_text(const std::vector<std::string>& broken);  // a line each

}  // namespace xyntra
