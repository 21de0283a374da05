// What statements read and write.
#pragma once

#include <set>
#include <vector>

#include "kir/kernel.h"

namespace xyntra::kir {

std::set<BufferId> buffers_written(const StmtNode& statement);  // by itself
std::set<BufferId> buffers_written(const Stmt& root);  // with everything inside
bool has_call(const Stmt& root);
// Whether threads wait for one another in it. A check there ends the run, but not its thread, for which others wait: after
// it an index may still be outside.
bool has_barrier(const Stmt& root);

// Loads that are made whatever happens: not only in one branch of a select; each once.
std::vector<const te::ExprNode*> unconditional_loads(const Expr& root);

// Whether the expression has one value in all iterations of a loop over `var` whose body writes `written`.
bool is_invariant(const Expr& expr, VarId var, const std::set<BufferId>& written);

}  // namespace xyntra::kir
