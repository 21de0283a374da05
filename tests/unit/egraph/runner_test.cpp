// Saturation: small algebras, limits, back-off, and results that depend on nothing but the input.
#include "egraph/runner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "egraph/match/search.h"
#include "unit/egraph/language.h"

namespace xyntra::egraph {
namespace {

std::vector<Rule> ring(Language& language) {
  return {language.rule("add-commutes", "(+ ?a ?b)", "(+ ?b ?a)"),
          language.rule("add-associates", "(+ (+ ?a ?b) ?c)", "(+ ?a (+ ?b ?c))"),
          language.rule("add-associates-back", "(+ ?a (+ ?b ?c))", "(+ (+ ?a ?b) ?c)"),
          language.rule("multiply-commutes", "(* ?a ?b)", "(* ?b ?a)"),
          language.rule("distribute", "(* ?a (+ ?b ?c))", "(+ (* ?a ?b) (* ?a ?c))"),
          language.rule("factor", "(+ (* ?a ?b) (* ?a ?c))", "(* ?a (+ ?b ?c))"),
          language.rule("add-zero", "(~+ ?a 0)", "?a"),
          language.rule("multiply-one", "(~* ?a 1)", "?a"),
          language.rule("multiply-zero", "(~* ?a 0)", "0")};
}

std::string best(EGraph& graph, const Language& language, TermId term) {
  const ClassId root = graph.class_of(term);
  const Result<Extraction> found = extract(graph, language.one_per_operation(), std::span(&root, 1));
  return found ? language.text(graph, found->term(graph, root)) : found.error().to_string();
}

TEST(Runner, SaturatesSmallAlgebra) {
  Language language;
  std::vector<Rule> rules = ring(language);
  rules.erase(rules.begin() + 4);  // distributing over zero never ends
  EGraph graph;
  const TermId term = language.term(graph, "(+ (* (+ a 0) (* b 1)) (* c a))");
  const RunReport report = Runner(rules).run(graph);
  EXPECT_EQ(report.stop, StopReason::Saturated);
  EXPECT_TRUE(graph.equal(term, language.term(graph, "(* a (+ b c))")));
  EXPECT_EQ(best(graph, language, term), "(* (+ b c) a)");  // '+' comes before 'a'
  EXPECT_GE(report.total(5).applied, 1u);
  EXPECT_NE(report.to_text(rules).find("stopped: saturated"), std::string::npos);
}

TEST(Runner, AllOrdersOfASumAreFound) {
  Language language;
  const std::vector<Rule> all = ring(language);
  const std::vector<Rule> rules(all.begin(), all.begin() + 3);
  EGraph graph;
  const TermId one = language.term(graph, "(+ a (+ b (+ c (+ d e))))");
  EXPECT_EQ(Runner(rules).run(graph).stop, StopReason::Saturated);
  EXPECT_TRUE(graph.equal(one, language.term(graph, "(+ (+ e c) (+ (+ a d) b))")));
  EXPECT_EQ(graph.class_count(), 31u);  // one per set of letters that is not empty
}

TEST(Runner, GuardsAndComputedSides) {
  Language language;
  const Head number = Language::kNumber;
  Rule fold;  // the sum of two numbers, as long as it is small
  fold.name = "fold";
  fold.left.node(language.head("+"), PayloadMatch::fixed(0),
                 {fold.left.node(number, PayloadMatch::variable(0), {}),
                  fold.left.node(number, PayloadMatch::variable(1), {})});
  fold.guard = [](const EGraph&, const Match& match) { return match.payloads[0] + match.payloads[1] < 10; };
  fold.compute = [](EGraph& graph, const Match& match) -> std::optional<TermId> {
    return graph.add(Language::kNumber, match.payloads[0] + match.payloads[1], {});
  };
  ASSERT_TRUE(fold.check().has_value());
  const std::vector<Rule> rules{fold};
  EGraph graph;
  const TermId small = language.term(graph, "(+ 1 (+ 2 3))");
  const TermId large = language.term(graph, "(+ 5 (+ 2 3))");
  const RunReport report = Runner(rules).run(graph);
  EXPECT_TRUE(graph.equal(small, language.term(graph, "6")));
  EXPECT_FALSE(graph.equal(large, language.term(graph, "10")));
  EXPECT_EQ(report.total(0).refused, 1u);
}

TEST(Runner, TuplesArePulledApart) {
  Language language;
  const std::vector<Rule> rules{language.rule("split-twice", "(split (join ?a ?b))", "(pair ?a ?b)"),
                                language.rule("first", "(proj:1 (pair ?a ?b))", "?a"),
                                language.rule("second", "(proj:2 (pair ?a ?b))", "?b")};
  EGraph graph;
  const TermId term = language.term(graph, "(+ (proj:2 (split (join a b))) (proj:1 (split (join a b))))");
  Runner(rules).run(graph);
  EXPECT_EQ(best(graph, language, term), "(+ b a)");
}

TEST(Runner, LimitsEndInAReason) {
  Language language;
  const std::vector<Rule> rules = ring(language);
  const auto stop = [&](RunLimits limits) {
    EGraph graph;
    language.term(graph, "(* (+ a (+ b (+ c (+ d e)))) (* f (+ g (+ h (+ i j)))))");
    return Runner(rules, limits).run(graph).stop;
  };
  RunLimits nodes;
  nodes.nodes = 300;
  EXPECT_EQ(stop(nodes), StopReason::NodeLimit);
  RunLimits iterations;
  iterations.iterations = 2;
  EXPECT_EQ(stop(iterations), StopReason::IterationLimit);
  RunLimits matches;
  matches.matches = 50;
  EXPECT_EQ(stop(matches), StopReason::MatchLimit);
}

TEST(Runner, CanBeCancelled) {
  Language language;
  const std::vector<Rule> rules = ring(language);
  EGraph graph;
  language.term(graph, "(+ a (+ b (+ c (+ d e))))");
  Runner runner(rules);
  int asked = 0;
  runner.cancelled = [&] { return ++asked > 20; };
  EXPECT_EQ(runner.run(graph).stop, StopReason::Cancelled);
  EXPECT_TRUE(graph.rebuilt());
}

TEST(Runner, BackOffStillSaturates) {
  Language language;
  const std::vector<Rule> all = ring(language);
  const std::vector<Rule> rules(all.begin(), all.begin() + 3);
  RunLimits limits;
  limits.matches_per_rule = 3;
  limits.ban_length = 2;
  limits.iterations = 1000;
  EGraph graph;
  language.term(graph, "(+ a (+ b (+ c (+ d e))))");
  const RunReport report = Runner(rules, limits).run(graph);
  EXPECT_EQ(report.stop, StopReason::Saturated);
  EXPECT_EQ(graph.class_count(), 31u);
  EXPECT_TRUE(report.total(0).banned);
}

// Looking only at what changed finds the same as looking at everything.
TEST(Runner, IncrementalSearchFindsTheSame) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Language language;
    for (const char* name : {"+", "*", "f"}) language.head(name);  // the heads of RandomGraph, in its order
    std::vector<Rule> rules{language.rule("a", "(f (+ ?x))", "(+ (f ?x))"),
                            language.rule("b", "(* (+ ?x) ?y)", "(+ (* ?x ?y))"),
                            language.rule("c", "(*:1 ?x (* ?x ?y))", "(f ?y)"),
                            language.rule("d", "(+ (f (+:1 ?x)))", "(*:1 ?x ?x)")};
    const auto grow = [&](std::uint32_t reach) {
      for (Rule& rule : rules) rule.reach = reach;
      std::mt19937 random(seed);
      EGraph graph(nullptr, seed);
      const RandomGraph made(graph, random, 60, 20);
      RunLimits limits;
      limits.iterations = 8;
      limits.nodes = 3000;
      const RunReport report = Runner(rules, limits).run(graph);
      return std::tuple(graph.class_count(), graph.node_count(), report.stop);
    };
    EXPECT_EQ(grow(0), grow(1000)) << "seed " << seed;
  }
}

TEST(Runner, NeitherSeedsNorTheOrderOfInsertionShow) {
  const std::vector<std::string> parts{"(* a (+ b c))", "(+ (* d e) (* d f))", "(+ (+ a 0) (* 1 c))",
                                       "(* (+ a b) (+ c d))"};
  const auto run = [&](std::uint64_t hash_seed, std::vector<std::string> order) {
    Language language;
    const std::vector<Rule> rules = ring(language);
    EGraph graph(nullptr, hash_seed);
    for (const std::string& part : order) language.term(graph, part);
    const TermId term = language.term(
        graph, "(+ " + parts[0] + " (+ " + parts[1] + " (* " + parts[2] + " " + parts[3] + ")))");
    RunLimits limits;
    limits.iterations = 3;
    limits.nodes = 1'000'000;
    Runner(rules, limits).run(graph);
    return best(graph, language, term);
  };
  const std::string expected = run(0, parts);
  std::vector<std::string> order = parts;
  std::sort(order.begin(), order.end());
  std::uint64_t seed = 0;
  do {
    EXPECT_EQ(run(++seed * 0x2545f4914f6cdd1dull, order), expected);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Scheduler, BansGrowAndTheFirstCanBeEnded) {
  Scheduler scheduler(2, 10, 4);
  scheduler.ban(0, 0);
  EXPECT_TRUE(scheduler.banned(0, 4));
  EXPECT_FALSE(scheduler.banned(0, 5));
  EXPECT_EQ(scheduler.limit(0), 20u);
  EXPECT_EQ(scheduler.limit(1), 10u);
  scheduler.ban(0, 5);
  EXPECT_TRUE(scheduler.banned(0, 13));
  scheduler.end_first_bans(6);
  EXPECT_FALSE(scheduler.any_banned(6));
}

}  // namespace
}  // namespace xyntra::egraph
