// join-parts: concatenations of what lies together already.
//
//   a, b = Split(x);   y = Concat(a, b, c)                      ->   y = Concat(x, c)
//   p = Concat(a, b);  q = Concat(a, b, c)                      ->   p = Concat(a, b);  q = Concat(p, c)
//
// The parts of a concatenation are written where they belong (memory_needs.h), each into one. What a network hands from layer to layer
// and adds to at every layer is then one piece of memory, which grows.
#pragma once

#include "ir/graph.h"
#include "plan/plan.h"

namespace xyntra {

struct JoinOptions {
  bool nests = true;  // q = Concat(p, c): where a concatenation costs nothing
};

// The graph has types, and so has what is left of it.
std::vector<CertificateLine> join_parts(Graph& graph, const JoinOptions& options);

}  // namespace xyntra
