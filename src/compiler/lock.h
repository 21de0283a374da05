// Locks: a plan written down, and taken up again without any search.
//
// What rewriting, fusion, schedules and memory decided is read from the lock; weights come from the model by their hashes, and
// those that rewriting computed are computed again by the lock's derived constants. A lock is untrusted: it passes every check that
// there is before anything runs. The checks keep it from doing harm; that its graph means what the model means is
// for `xyntra verify --plan` to show.
#pragma once

#include "compiler/lower_plan.h"
#include "compiler/pipeline.h"
#include "plan/text.h"

namespace xyntra {

// What of the options shapes a plan, one setting a line; a lock holds its hash.
std::string configuration_text(const CompileOptions& options);

struct MadeLock {
  Plan plan;
  std::string text;
  LoweredPlan lowered;  // of the plan: a lock is written when all of it has been seen to work
};
// The model must have its types inferred.
Result<MadeLock> make_lock(const Module& model, const CompileOptions& options);

struct LockOptions {
  const Target* target = nullptr;  // the one it must be for; null: the one it names
  bool allow_reassociating = true;
  bool allow_precision_changing = true;
  int threads = 0;  // for derived constants
  std::shared_ptr<Budget> budget;
};

// Usage error when the lock was made for another model or target, or does what the options forbid; BadModel error
// when it is malformed or a check fails.
Result<Plan> load_lock(std::string_view text, const Module& model, const LockOptions& options = {});
Result<Plan> load_lock_file(const std::string& path, const Module& model, const LockOptions& options = {});
Result<Lock> read_lock_file(const std::string& path);  // as it is, nothing checked: for looking at it

}  // namespace xyntra
