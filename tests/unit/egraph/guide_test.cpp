// The example of docs/egraph.md; the docs lane checks that the page shows this code.
#include <gtest/gtest.h>

#include <vector>

#include "egraph/explain.h"
#include "egraph/extract/extract.h"
#include "egraph/runner.h"

namespace xyntra::egraph {
namespace {

TEST(Guide, TheExampleRuns) {
  enum : Head { kInput, kNumber, kMultiply, kShiftLeft };

  Rule rule;  // x * 2 => x << 1
  rule.name = "times-two";
  const PartId x = rule.left.variable(0);
  const PartId two = rule.left.node(kNumber, PayloadMatch::fixed(2), {});
  rule.left.node(kMultiply, PayloadMatch::fixed(0), {x, two}, Order::Either);
  const PartId one = rule.right.node(kNumber, PayloadMatch::fixed(1), {});
  rule.right.node(kShiftLeft, PayloadMatch::fixed(0), {rule.right.variable(0), one});
  const std::vector<Rule> rules{rule};

  EGraph graph;
  const TermId a = graph.add(kInput, 0, {});
  const TermId program = graph.add(kMultiply, 0, {graph.add(kNumber, 2, {}), a});
  const RunReport report = Runner(rules).run(graph);  // report.stop == StopReason::Saturated

  CostModel model;
  model.cost = [](ClassId, const ENode& node) { return node.head == kMultiply ? Cost{4} : Cost{1}; };
  model.key = [](Head head, Payload payload) { return std::uint64_t{head} << 32 | payload; };
  const std::vector<ClassId> roots{graph.class_of(program)};
  const Extraction best = extract(graph, model, roots).value();
  const TermId found = best.term(graph, roots[0]);  // a << 1

  const Proof proof = explain(graph, rules, program, found).value();
  const bool proved = check(graph, rules, proof).has_value();  // by matching the rules anew

  EXPECT_EQ(report.stop, StopReason::Saturated);
  EXPECT_EQ(graph.head(found), static_cast<Head>(kShiftLeft));
  EXPECT_EQ(rule_uses(graph, proof).size(), 1u);
  EXPECT_TRUE(proved);
}

}  // namespace
}  // namespace xyntra::egraph
