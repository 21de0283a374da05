// Loops of one kind around a statement.
#pragma once

#include <vector>

#include "kir/kernel.h"

namespace xyntra {

// The first of them is the outermost.
inline kir::Stmt in_loops(kir::LoopKind kind, const std::vector<te::VarId>& loops, kir::Stmt body) {
  for (std::size_t i = loops.size(); i-- > 0;) body = kir::Stmt::loop(kind, loops[i], std::move(body));
  return body;
}

}  // namespace xyntra
