// For tests of rewriting: a graph from text, and the ops of what it becomes.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ir/text.h"
#include "ops/infer.h"
#include "rewrite/rewrite.h"

namespace xyntra {

// The body of a graph: `graph @main(%x: f32[2]) -> (%y) { … }`.
inline Graph graph_of(const std::string& body) {
  auto module = parse_xir("xir 1\n" + body);
  EXPECT_TRUE(module) << module.error().to_string();
  auto inferred = infer_types(*module);
  EXPECT_TRUE(inferred) << inferred.error().to_string();
  return std::move(module->graph);
}

inline RewriteResult rewritten(const std::string& body, const RewriteOptions& options = {}) {
  auto result = rewrite(graph_of(body), options);
  EXPECT_TRUE(result) << result.error().to_string();
  auto sound = verify(result->graph);
  EXPECT_TRUE(sound) << sound.error().to_string();
  return std::move(*result);
}

// Ops in order of execution: "MatMul Add".
inline std::string ops_of(const Graph& graph) {
  std::string text;
  const auto order = graph.topological_order();
  for (NodeId id : *order) text += (text.empty() ? "" : " ") + graph.node(id).op;
  return text;
}

}  // namespace xyntra
