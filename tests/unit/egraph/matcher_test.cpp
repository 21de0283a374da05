// Compiled matching against a matcher that knows nothing of programs, indices or incremental search.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "egraph/match/pattern.h"
#include "unit/egraph/language.h"

namespace xyntra::egraph {
namespace {

using Found =
    std::tuple<ClassId, std::vector<ClassId>, std::vector<std::int64_t>>;  // root, variables, payloads

struct NaiveMatcher {
  const EGraph& graph;
  const Pattern& pattern;
  std::set<Found> found;

  struct State {
    std::vector<ClassId> classes;
    std::vector<std::int64_t> payloads;
  };

  void run() {
    for (const ClassId root : graph.classes()) {
      const State start{std::vector<ClassId>(pattern.variable_count()),
                        std::vector<std::int64_t>(pattern.payload_count(), -1)};
      for (const State& state : matches(pattern.root(), root, start)) {
        found.insert({root, state.classes, state.payloads});
      }
    }
  }

  std::vector<State> matches(PartId id, ClassId at, State state) const {
    const Part& part = pattern[id];
    if (part.variable != kNoVariable) {
      ClassId& bound = state.classes[part.variable];
      if (bound.valid() && bound != at) return {};
      bound = at;
    }
    if (part.kind == Part::Kind::Variable) return {state};
    if (part.kind == Part::Kind::Predicate) {
      return pattern.predicate_of(part)(graph, at) ? std::vector<State>{state} : std::vector<State>{};
    }
    std::vector<State> result;
    for (const ENode& node : graph.nodes(at)) {
      std::vector<ClassId> children(node.children.begin(), node.children.end());
      for (int flip = 0; flip < (part.order == Order::Either ? 2 : 1); ++flip) {
        const std::vector<State> more = node_matches(part, node, children, state);
        result.insert(result.end(), more.begin(), more.end());
        std::reverse(children.begin(), children.end());
      }
    }
    return result;
  }

  std::vector<State> node_matches(const Part& part, const ENode& node, const std::vector<ClassId>& children,
                                  State state) const {
    if (node.head != part.head || children.size() != part.children.size()) return {};
    if (part.payload.kind == PayloadMatch::Kind::Fixed && node.payload != part.payload.value) return {};
    if (part.payload.kind == PayloadMatch::Kind::Variable) {
      std::int64_t& bound = state.payloads[part.payload.value];
      if (bound >= 0 && bound != node.payload) return {};
      bound = node.payload;
    }
    std::vector<State> states{state};
    for (std::size_t i = 0; i < children.size(); ++i) {
      std::vector<State> next;
      for (const State& each : states) {
        const std::vector<State> more = matches(part.children[i], children[i], each);
        next.insert(next.end(), more.begin(), more.end());
      }
      states = std::move(next);
    }
    return states;
  }
};

std::set<Found> compiled_matches(const EGraph& graph, const Pattern& pattern) {
  MatchList list(pattern);
  EXPECT_TRUE(Matcher(pattern).search(graph, 1'000'000, list));
  std::set<Found> found;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto classes = list.classes(i);
    const auto payloads = list.payloads(i);
    found.insert({graph.class_of(list.nodes(i).back()),
                  {classes.begin(), classes.end()},
                  {payloads.begin(), payloads.end()}});
  }
  return found;
}

// A pattern over the heads that RandomGraph uses.
struct RandomPattern {
  std::mt19937& random;
  Pattern pattern;
  std::uint32_t variables = 0;
  std::uint32_t payloads = 0;

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }

  PartId part(int depth) {
    if (depth == 0 || (depth < 3 && below(3) == 0)) {
      if (below(5) == 0) {
        const std::uint32_t parity = below(2);
        return pattern.predicate([parity](const EGraph&, ClassId id) { return id.index % 2 == parity; });
      }
      const std::uint32_t number = below(variables + 1);
      variables = std::max(variables, number + 1);
      return pattern.variable(number);
    }
    const Head head = 2 + below(3);
    std::vector<PartId> children;
    for (std::uint32_t i = 0; i < 1 + head % 2; ++i) children.push_back(part(depth - 1));
    PayloadMatch payload = PayloadMatch::any();
    if (below(3) == 0) payload = PayloadMatch::fixed(below(2));
    if (below(3) == 0) {
      payload = PayloadMatch::variable(below(payloads + 1));
      payloads = std::max(payloads, payload.value + 1);
    }
    std::uint32_t bind = kNoVariable;
    if (below(6) == 0) bind = variables++;
    return pattern.node(head, payload, children,
                        children.size() == 2 && below(2) == 0 ? Order::Either : Order::Given, bind);
  }
};

TEST(Matcher, FindsWhatTheNaiveMatcherFindsOnRandomGraphs) {
  std::size_t total = 0;
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    EGraph graph(nullptr, seed);
    const RandomGraph made(graph, random, 20 + seed % 40, seed % 20);
    RandomPattern random_pattern{random, {}, 0, 0};
    random_pattern.part(3);
    const Pattern& pattern = random_pattern.pattern;
    ASSERT_TRUE(pattern.check_left().has_value());
    NaiveMatcher naive{graph, pattern, {}};
    naive.run();
    EXPECT_EQ(compiled_matches(graph, pattern), naive.found) << "seed " << seed;
    total += naive.found.size();
  }
  EXPECT_GT(total, 2000u);  // the comparison is not empty
}

TEST(Matcher, TheSameVariableIsTheSameClass) {
  Language language;
  EGraph graph;
  language.term(graph, "(* (+ a b) (+ a c))");
  const Pattern pattern = language.pattern("(* (+ ?x ?y) (+ ?x ?y))");
  EXPECT_EQ(compiled_matches(graph, pattern).size(), 0u);
  graph.unite(language.term(graph, "b"), language.term(graph, "c"), graph.reason("given"));
  graph.rebuild();
  EXPECT_EQ(compiled_matches(graph, pattern).size(), 1u);
}

TEST(Matcher, StopsAtTheLimit) {
  Language language;
  EGraph graph;
  for (int i = 0; i < 10; ++i) language.term(graph, "(f " + std::to_string(i) + ")");
  const Pattern pattern = language.pattern("(f ?x)");
  MatchList list(pattern);
  EXPECT_FALSE(Matcher(pattern).search(graph, 4, list));
  EXPECT_EQ(list.size(), 4u);
}

TEST(Matcher, ProjectionsMatchByPosition) {
  Language language;
  EGraph graph;
  language.term(graph, "(+ (proj:1 (split a)) (proj:2 (split a)))");
  EXPECT_EQ(compiled_matches(graph, language.pattern("(proj:2 (split ?x))")).size(), 1u);
  EXPECT_EQ(compiled_matches(graph, language.pattern("(proj:$0 ?x)")).size(), 2u);
  EXPECT_EQ(compiled_matches(graph, language.pattern("(+ (proj:$0 ?x) (proj:$0 ?x))")).size(), 0u);
  EXPECT_EQ(compiled_matches(graph, language.pattern("(+ (proj:$0 ?x) (proj:$1 ?x))")).size(), 1u);
}

TEST(Pattern, BadSidesAreRefused) {
  Language language;
  EXPECT_FALSE(language.rule("bare", "?x", "?x").check().has_value());
  const Status unbound = language.rule("unbound", "(f ?x)", "(g ?y)").check();
  ASSERT_FALSE(unbound.has_value());
  EXPECT_EQ(unbound.error().message, "rule 'unbound': variable 1 is not bound by the left side");
  EXPECT_FALSE(language.rule("payload", "(f:* ?x)", "(g:* ?x)").check().has_value());
  EXPECT_FALSE(language.rule("payload", "(f:* ?x)", "(g:$0 ?x)").check().has_value());
  EXPECT_TRUE(language.rule("good", "(f:$0 ?x)", "(g:$0 ?x)").check().has_value());
}

}  // namespace
}  // namespace xyntra::egraph
