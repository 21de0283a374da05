// A random graph with inputs to run it on: what rewriting and fusion are tested on, beside models people made.
#pragma once

#include "graphs/decisions.h"
#include "ir/graph.h"

namespace xyntra::graphs {

struct Subject {
  Graph graph;  // types inferred
  std::vector<Datum> inputs;
};

// The same decisions give the same graph. Nothing when no graph came of them.
std::optional<Subject> random_graph(Decisions& decisions);

}  // namespace xyntra::graphs
