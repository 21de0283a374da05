// The flags of every verb that makes a plan: for which target and sizes, by which steps, within which contract.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "compiler/lock.h"

namespace xyntra {

struct PlanFigures;

struct PlanFlags {
  std::vector<std::string> dims;  // "seq=128", "seq=1..512"
  std::vector<std::string> donated;  // names of inputs, or "*"
  std::set<std::string> off;  // names of steps
  std::string dump_after;
};

void declare_dim(Flags& syntax, std::vector<std::string>& dims, const std::string& what_for);
// --target, --dim, --donate, --forbid, --precision, --no-STEP for every step that can be turned off
void declare_plan_flags(Flags& syntax, Session& session, PlanFlags& flags);
void declare_target(Flags& syntax, Session& session);
void declare_forbid(Flags& syntax, Session& session);
void declare_steps(Flags& syntax, PlanFlags& flags);  // --no-STEP
// --precision; what it says, a Usage error where it is forbidden
void declare_precision_flag(Flags& syntax, Session& session);
Result<Precision> precision_of(const Session& session);
// --max-kernels, --max-bytes, --no-fallback
void declare_contract_flags(Flags& syntax, Session& session);

// `nominal`: sizes to count costs with.
Result<CompileOptions> compile_options(const PlanFlags& flags, const Session& session,
                                       SymbolBindings nominal = {});
// A model as it is planned: with the ranges that --dim declares, sizes of one value being fixed as xyntra compile fixes
// them. `options` count costs with the sizes that --dim gives.
struct Planning {
  Module module;
  CompileOptions options;
};
Result<Planning> planning_for(Module module, const PlanFlags& flags, const Session& session);
// The target that a backend's plans are for: what --target names, where the backend runs plans for it, else its own.
Result<const Target*> target_for(const std::string& backend, const Session& session);
// Usage error where flags about plans go with a backend that runs none.
Status check_plan_flags(const std::string& backend, const PlanFlags& flags, const Session& session);
// How a lock is replayed under these options: without what they forbid, and for their target where somebody chose one.
LockOptions lock_options(const CompileOptions& options, const Session& session);

// What of the contract, and of the patterns of fusion.toml, the plan breaks: a sentence each, none when it is kept.
Result<std::vector<std::string>> broken_contract(const Graph& model, const Plan& plan,
                                                 const CompileOptions& options, const Session& session);
Result<std::vector<std::string>> broken_contract(const Plan& plan, const PlanFigures& figures,
                                                 const Session& session);
std::string broken_text(const std::vector<std::string>& broken);  // a line each

}  // namespace xyntra
