#include "egraph/egraph.h"

#include <gtest/gtest.h>

#include "egraph/explain.h"
#include "egraph/extract.h"
#include "egraph/runner.h"

namespace xyntra::egraph {
namespace {
TEST(EGraph, CongruenceFollowsFromEqualChildren) {
  EGraph graph;
  const TermId a = graph.add(1, 0, {});
  const TermId b = graph.add(1, 1, {});
  const TermId fa = graph.add(2, 0, {a});
  const TermId fb = graph.add(2, 0, {b});
  EXPECT_FALSE(graph.equal(fa, fb));
  graph.unite(a, b, graph.reason("given"));
  graph.rebuild();
  EXPECT_TRUE(graph.equal(fa, fb));
  EXPECT_EQ(graph.node_count(), 3u);
}
}  // namespace
}  // namespace xyntra::egraph
