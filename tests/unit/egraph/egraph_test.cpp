// Congruence closure against a naive one, and what rebuild() promises about its tables.
#include "egraph/egraph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "unit/egraph/language.h"

namespace xyntra::egraph {
namespace {

// Equality of terms by trying all pairs until nothing changes.
class NaiveClosure {
 public:
  NaiveClosure(const EGraph& graph, const std::vector<std::pair<TermId, TermId>>& united)
      : graph_(graph), group_(graph.term_count()) {
    std::iota(group_.begin(), group_.end(), 0u);
    for (const auto& [a, b] : united) unite(a, b);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < group_.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if (group_[i] != group_[j] && congruent(TermId(i), TermId(j))) {
            unite(TermId(i), TermId(j));
            changed = true;
          }
        }
      }
    }
  }
  bool equal(TermId a, TermId b) const { return group_[a.index] == group_[b.index]; }

 private:
  void unite(TermId a, TermId b) {
    const std::uint32_t from = group_[a.index];
    const std::uint32_t to = group_[b.index];
    std::replace(group_.begin(), group_.end(), from, to);
  }
  bool congruent(TermId a, TermId b) const {
    const auto left = graph_.children(a);
    const auto right = graph_.children(b);
    return graph_.head(a) == graph_.head(b) && graph_.payload(a) == graph_.payload(b) &&
           std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [&](TermId x, TermId y) { return equal(x, y); });
  }
  const EGraph& graph_;
  std::vector<std::uint32_t> group_;
};

void expect_consistent(const EGraph& graph) {
  std::size_t nodes = 0;
  std::set<Head> heads;
  for (const ClassId id : graph.classes()) {
    EXPECT_EQ(graph.find(id), id);
    ASSERT_FALSE(graph.nodes(id).empty());
    EXPECT_EQ(graph.class_of(graph.representative(id)), id);
    nodes += graph.nodes(id).size();
    for (const ENode& node : graph.nodes(id)) {
      heads.insert(node.head);
      EXPECT_EQ(graph.lookup(node.head, node.payload, node.children), id);
      EXPECT_EQ(graph.class_of(node.term), id);
      for (const ClassId child : node.children) {
        EXPECT_EQ(graph.find(child), child);
        const auto parents = graph.parents(child);
        EXPECT_EQ(std::count(parents.begin(), parents.end(), node.term), 1);
      }
      const auto& with_head = graph.classes_with(node.head);
      EXPECT_EQ(std::count(with_head.begin(), with_head.end(), id), 1);
    }
    for (const TermId parent : graph.parents(id)) {
      const auto children = graph.node(parent).children;
      EXPECT_NE(std::find(children.begin(), children.end(), id), children.end());
    }
    EXPECT_TRUE(std::is_sorted(graph.nodes(id).begin(), graph.nodes(id).end(),
                               [](const ENode& a, const ENode& b) { return a.head < b.head; }));
  }
  EXPECT_EQ(nodes, graph.node_count());
  for (const Head head : heads) {
    for (const ClassId id : graph.classes_with(head)) EXPECT_FALSE(graph.nodes(id, head).empty());
  }
}

TEST(EGraph, CongruenceFollowsFromEqualChildren) {
  Language language;
  EGraph graph;
  const TermId one = language.term(graph, "(f (f a))");
  const TermId two = language.term(graph, "(f (f b))");
  EXPECT_FALSE(graph.equal(one, two));
  EXPECT_TRUE(graph.unite(language.term(graph, "a"), language.term(graph, "b"), graph.reason("given")));
  graph.rebuild();
  EXPECT_TRUE(graph.equal(one, two));
  EXPECT_EQ(graph.class_count(), 3u);
  EXPECT_EQ(graph.node_count(), 4u);  // a, b, f of them, f of that
}

TEST(EGraph, AddingTheSameTwiceGivesTheSameTerm) {
  Language language;
  EGraph graph;
  EXPECT_EQ(language.term(graph, "(+ a (+ b 2))"), language.term(graph, "(+ a (+ b 2))"));
  EXPECT_NE(language.term(graph, "(+:1 a b)"), language.term(graph, "(+:2 a b)"));
}

TEST(EGraph, AClassMayHoldItself) {
  Language language;
  EGraph graph;
  const TermId a = language.term(graph, "a");
  const TermId fa = language.term(graph, "(f a)");
  graph.unite(a, fa, graph.reason("given"));
  graph.rebuild();
  EXPECT_TRUE(graph.equal(a, language.term(graph, "(f (f (f a)))")));
  EXPECT_EQ(graph.class_count(), 1u);
}

TEST(EGraph, TuplesAreNodesAndProjectionsHaveTheirPositionAsPayload) {
  Language language;
  EGraph graph;
  const TermId split = language.term(graph, "(split a)");
  const TermId first = language.term(graph, "(proj:1 (split a))");
  const TermId second = language.term(graph, "(proj:2 (split a))");
  EXPECT_FALSE(graph.equal(first, second));
  const TermId other = language.term(graph, "(proj:1 (pair b c))");
  graph.unite(split, language.term(graph, "(pair b c)"), graph.reason("given"));
  graph.rebuild();
  EXPECT_TRUE(graph.equal(first, other));
  EXPECT_FALSE(graph.equal(second, other));
}

TEST(EGraph, ClosureEqualsTheNaiveOneOnRandomGraphs) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    EGraph graph(nullptr, seed);
    const RandomGraph made(graph, random, 10 + seed % 30, seed % 12);
    const NaiveClosure naive(graph, made.united);
    for (std::size_t i = 0; i < graph.term_count(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        ASSERT_EQ(graph.equal(TermId(i), TermId(j)), naive.equal(TermId(i), TermId(j))) << "seed " << seed;
      }
    }
    expect_consistent(graph);
  }
}

TEST(EGraph, TheHashSeedDoesNotShow) {
  const auto describe = [](std::uint64_t hash_seed) {
    std::mt19937 random(7);
    EGraph graph(nullptr, hash_seed);
    const RandomGraph made(graph, random, 200, 60);
    std::vector<std::uint32_t> numbers;
    for (const ClassId id : graph.classes()) {
      numbers.push_back(id.index);
      for (const ENode& node : graph.nodes(id)) numbers.push_back(node.term.index);
      for (const TermId parent : graph.parents(id)) numbers.push_back(parent.index);
    }
    return numbers;
  };
  const auto expected = describe(0);
  for (std::uint64_t seed = 1; seed < 20; ++seed) EXPECT_EQ(describe(seed * 0x9e3779b97f4a7c15ull), expected);
}

}  // namespace
}  // namespace xyntra::egraph
