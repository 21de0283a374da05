// What the verifier cannot prove of a kernel that is otherwise sound: the loads and stores that guard() puts under a condition.
#pragma once

#include <unordered_set>

#include "kir/kernel.h"

namespace xyntra::kir {

// Accesses that are not shown to be in bounds.
struct Unproved {
  std::unordered_set<const te::ExprNode*> loads;
  std::unordered_set<const StmtNode*> stores;
};

// As verify(kernel), but such accesses are noted, and are no failure.
Status verify(const Kernel& kernel, Unproved& unproved);

}  // namespace xyntra::kir
