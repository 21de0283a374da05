// The flags of every verb that makes a plan: for which target and sizes, by which steps, within which contract.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "compiler/pipeline.h"

namespace xyntra {

struct PlanFlags {
  std::vector<std::string> dims;  // "seq=128"
  std::set<std::string> off;  // names of steps
  std::string dump_after;
};

// --target, --dim, --forbid, --no-STEP for every step that can be turned off
void declare_plan_flags(Flags& syntax, Session& session, PlanFlags& flags);
// --max-kernels, --max-bytes, --no-fallback
void declare_contract_flags(Flags& syntax, Session& session);

Result<CompileOptions> compile_options(const Graph& graph, const PlanFlags& flags, const Session& session);

}  // namespace xyntra
