// Explanations: every equality that saturation finds is explained, and the explanation replays.
#include "egraph/explain.h"

#include <gtest/gtest.h>

#include "egraph/extract/extract.h"
#include "egraph/runner.h"
#include "unit/egraph/language.h"

namespace xyntra::egraph {
namespace {

void expect_explained(EGraph& graph, std::span<const Rule> rules, TermId from, TermId to) {
  const std::size_t classes = graph.class_count();
  const Result<Proof> proof = explain(graph, rules, from, to);
  ASSERT_TRUE(proof.has_value()) << proof.error().to_string();
  const Status checked = check(graph, rules, *proof);
  EXPECT_TRUE(checked.has_value()) << checked.error().to_string();
  const Result<std::vector<Step>> steps = chain(graph, *proof);
  ASSERT_TRUE(steps.has_value()) << steps.error().to_string();
  const Status replayed = replay(graph, rules, *steps, from, to);
  EXPECT_TRUE(replayed.has_value()) << replayed.error().to_string();
  EXPECT_EQ(graph.class_count(), classes);  // explaining adds terms, never classes
}

std::vector<Rule> arithmetic(Language& language) {
  Rule fold;  // a computed side, a guard and payload variables
  fold.name = "fold";
  fold.left.node(language.head("+"), PayloadMatch::fixed(0),
                 {fold.left.node(Language::kNumber, PayloadMatch::variable(0), {}),
                  fold.left.node(Language::kNumber, PayloadMatch::variable(1), {})});
  fold.guard = [](const EGraph&, const Match& match) { return match.payloads[0] + match.payloads[1] < 10; };
  fold.compute = [](EGraph& graph, const Match& match) -> std::optional<TermId> {
    return graph.add(Language::kNumber, match.payloads[0] + match.payloads[1], {});
  };
  Rule keep;  // a node of the left side under a name: (g (f x)) = (h (f x) x)
  keep.name = "keep";
  const PartId x = keep.left.variable(0);
  const PartId inner = keep.left.node(language.head("f"), PayloadMatch::fixed(0), {x}, Order::Given, 1);
  keep.left.node(language.head("g"), PayloadMatch::fixed(0), {inner});
  const PartId named = keep.right.variable(1);
  keep.right.node(language.head("h"), PayloadMatch::fixed(0), {named, keep.right.variable(0)});
  return {language.rule("add-commutes", "(+ ?a ?b)", "(+ ?b ?a)"),
          language.rule("add-associates", "(+ (+ ?a ?b) ?c)", "(+ ?a (+ ?b ?c))"),
          language.rule("double", "(+ ?a ?a)", "(* 2 ?a)"),
          language.rule("multiply-one", "(~* ?a 1)", "?a"),
          language.rule("f-of-sum", "(f (~+ (f ?x) ?y))", "(+ (f ?y) ?x)"),
          fold,
          keep};
}

TEST(Explain, SaysWhichRulesLeadFromOneTermToTheOther) {
  Language language;
  const std::vector<Rule> rules = arithmetic(language);
  EGraph graph;
  const TermId from = language.term(graph, "(f (+ a (* 1 a)))");
  const TermId to = language.term(graph, "(f (* 2 a))");
  EXPECT_FALSE(explain(graph, rules, from, to).has_value());
  Runner(rules).run(graph);
  const Result<Proof> proof = explain(graph, rules, from, to);
  ASSERT_TRUE(proof.has_value());
  const Result<std::vector<Step>> steps = chain(graph, *proof);
  ASSERT_TRUE(steps.has_value());
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ(graph.reason_name((*steps)[0].why), "multiply-one");
  EXPECT_EQ((*steps)[0].position, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(language.text(graph, (*steps)[0].after), "(f (+ a a))");
  EXPECT_EQ(graph.reason_name((*steps)[1].why), "double");
  EXPECT_TRUE((*steps)[1].forward);
  EXPECT_EQ((*steps)[1].position, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(rule_uses(graph, *proof).size(), 2u);
  expect_explained(graph, rules, to, from);
}

TEST(Explain, EveryEqualityOfRandomProgramsReplays) {
  std::size_t explained = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    Language language;
    const std::vector<Rule> rules = arithmetic(language);
    std::mt19937 random(seed);
    EGraph graph(nullptr, seed);
    std::vector<std::string> texts{"a", "b", "1", "2", "3"};
    for (int i = 0; i < 12; ++i) {
      const auto pick = [&] { return texts[random() % texts.size()]; };
      const char* const shapes[] = {"+", "+", "*", "f", "f", "g"};
      const std::string head = shapes[random() % 6];
      texts.push_back("(" + head + " " + pick() + (head == "+" || head == "*" ? " " + pick() : "") + ")");
    }
    std::vector<TermId> terms;
    for (const std::string& text : texts) terms.push_back(language.term(graph, text));
    RunLimits limits;
    limits.iterations = 4;
    limits.nodes = 2000;
    Runner(rules, limits).run(graph);
    const std::size_t count = graph.term_count();
    for (int i = 0; i < 40; ++i) {
      const TermId from(random() % count);
      const auto nodes = graph.nodes(graph.class_of(from));
      const TermId to = nodes[random() % nodes.size()].term;
      if (from == to) continue;
      expect_explained(graph, rules, from, to);
      ++explained;
    }
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(explained, 2000u);
}

TEST(Explain, AnExtractedProgramIsExplained) {
  Language language;
  const std::vector<Rule> rules = arithmetic(language);
  EGraph graph;
  const TermId original = language.term(graph, "(+ (+ (* 1 (g (f a))) 2) (+ 3 (* (g (f a)) 1)))");
  Runner(rules).run(graph);
  const ClassId root = graph.class_of(original);
  const CostModel model = language.costs([&](ClassId, const ENode& node) {
    return node.children.empty() ? Cost{0} : node.head == language.head("g") ? Cost{9} : Cost{1};
  });
  const Result<Extraction> found = extract(graph, model, std::span(&root, 1));
  ASSERT_TRUE(found.has_value());
  const TermId extracted = found->term(graph, root);
  EXPECT_EQ(language.text(graph, extracted), "(+ (* 2 (h (f a) a)) 5)");
  expect_explained(graph, rules, original, extracted);
}

// Sharing doubles the size as a tree with each layer; lemmas do not care.
TEST(Explain, ProofsOfSharedProgramsStaySmall) {
  Language language;
  const std::vector<Rule> rules{language.rule("rename", "(f ?x)", "(g ?x)")};
  EGraph graph;
  TermId before = language.term(graph, "a");
  TermId after = before;
  for (int layer = 0; layer < 60; ++layer) {
    const TermId old_inner = graph.add(language.head("f"), 0, {before});
    const TermId new_inner = graph.add(language.head("g"), 0, {after});
    before = graph.add(language.head("+"), 0, {before, old_inner});
    after = graph.add(language.head("+"), 0, {after, new_inner});
  }
  Runner(rules).run(graph);
  const Result<Proof> proof = explain(graph, rules, before, after);
  ASSERT_TRUE(proof.has_value());
  EXPECT_LT(proof->lemmas.size(), 400u);
  EXPECT_TRUE(check(graph, rules, *proof).has_value());
  EXPECT_EQ(rule_uses(graph, *proof).size(), 60u);
  const auto steps = chain(graph, *proof);
  ASSERT_FALSE(steps.has_value());
  EXPECT_EQ(steps.error().error_class, ErrorClass::Limit);
  const auto capped = explain(graph, rules, before, after, 10);
  ASSERT_FALSE(capped.has_value());
  EXPECT_EQ(capped.error().error_class, ErrorClass::Limit);
}

TEST(Explain, CheckersRefuseWhatIsWrong) {
  Language language;
  const std::vector<Rule> rules = arithmetic(language);
  EGraph graph;
  const TermId from = language.term(graph, "(f (+ a (* 1 a)))");
  const TermId to = language.term(graph, "(f (* 2 a))");
  Runner(rules).run(graph);
  const Proof proof = explain(graph, rules, from, to).value();
  for (std::size_t i = 0; i < proof.lemmas.size(); ++i) {
    for (std::size_t j = 0; j < proof.lemmas[i].links.size(); ++j) {
      Proof missing = proof;
      missing.lemmas[i].links.erase(missing.lemmas[i].links.begin() + static_cast<std::ptrdiff_t>(j));
      EXPECT_FALSE(check(graph, rules, missing).has_value());
      Proof reversed = proof;
      Link& link = reversed.lemmas[i].links[j];
      if (link.why.reason == Justification::kCongruence) continue;
      link.forward = !link.forward;
      EXPECT_FALSE(check(graph, rules, reversed).has_value());
      reversed = proof;
      reversed.lemmas[i].links[j].why = graph.reason("add-associates");
      EXPECT_FALSE(check(graph, rules, reversed).has_value());
    }
  }
  Proof circular = proof;
  ASSERT_EQ(circular.lemmas[0].links[0].children.size(), 1u);
  circular.lemmas.push_back({graph.children(from)[0],
                             graph.children(to)[0],
                             {{graph.children(from)[0],
                               graph.children(to)[0],
                               {},
                               true,
                               {{LemmaId(circular.lemmas.size()), true}}}}});
  circular.lemmas[0].links = {{from, to, {}, true, {{LemmaId(circular.lemmas.size() - 1), true}}}};
  EXPECT_FALSE(check(graph, rules, circular).has_value());
  std::vector<Step> steps = chain(graph, proof).value();
  steps[0].position = {0, 0};
  EXPECT_FALSE(replay(graph, rules, steps, from, to).has_value());
}

}  // namespace
}  // namespace xyntra::egraph
