// Facts about classes: kept up to date through merges, and free to add what they know.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "egraph/explain.h"
#include "unit/egraph/language.h"

namespace xyntra::egraph {
namespace {

// Which classes are a number, folding + and * as it goes.
class Folding : public Analysis {
 public:
  explicit Folding(Language& language) : plus_(language.head("+")), times_(language.head("*")) {}

  std::optional<Payload> value(ClassId id) const { return values_[id.index]; }

  void made(const EGraph&, ClassId id, const ENode& node) override {
    values_.resize(std::max<std::size_t>(values_.size(), id.index + 1));
    values_[id.index] = evaluate(node);
  }
  bool merged(EGraph&, ClassId into, ClassId from) override { return learn(into, values_[from.index]); }
  bool remade(const EGraph&, ClassId id, const ENode& node) override { return learn(id, evaluate(node)); }
  void settled(EGraph& graph, ClassId id) override {
    if (!values_[id.index]) return;
    const TermId number = graph.add(Language::kNumber, *values_[id.index], {});
    graph.unite(graph.representative(id), number, graph.reason("fold"));
  }

 private:
  bool learn(ClassId id, std::optional<Payload> value) {
    if (values_[id.index] || !value) return false;
    values_[id.index] = value;
    return true;
  }
  std::optional<Payload> evaluate(const ENode& node) const {
    if (node.head == Language::kNumber) return node.payload;
    if (node.head != plus_ && node.head != times_) return std::nullopt;
    const auto left = values_[node.children[0].index];
    const auto right = values_[node.children[1].index];
    if (!left || !right) return std::nullopt;
    return node.head == plus_ ? *left + *right : *left * *right;
  }

  Head plus_;
  Head times_;
  std::vector<std::optional<Payload>> values_;
};

TEST(Analysis, ConstantsAreFolded) {
  Language language;
  Folding folding(language);
  EGraph graph(&folding);
  const TermId sum = language.term(graph, "(+ 1 (* 2 3))");
  const TermId open = language.term(graph, "(* (+ 1 (* 2 3)) (+ a 1))");
  graph.rebuild();
  EXPECT_TRUE(graph.equal(sum, language.term(graph, "7")));
  EXPECT_FALSE(folding.value(graph.class_of(open)).has_value());
}

TEST(Analysis, FactsTravelUpwardsWhenAClassLearnsThem) {
  Language language;
  Folding folding(language);
  EGraph graph(&folding);
  const TermId open = language.term(graph, "(* (+ a 1) (+ a 1))");
  graph.rebuild();
  graph.unite(language.term(graph, "a"), language.term(graph, "3"), graph.reason("given"));
  graph.rebuild();
  EXPECT_EQ(folding.value(graph.class_of(open)), 16u);
  const TermId number = language.term(graph, "16");
  ASSERT_TRUE(graph.equal(open, number));
  const Result<Proof> proof = explain(graph, {}, open, number);
  ASSERT_TRUE(proof.has_value());
  EXPECT_TRUE(check(graph, {}, *proof).has_value());
  const std::vector<RuleUse> uses = rule_uses(graph, *proof);
  EXPECT_FALSE(uses.empty());
  for (const RuleUse& use : uses) EXPECT_TRUE(use.rule == "fold" || use.rule == "given");
}

// The least depth of a term in each class: a lattice where facts go on improving.
class Depth : public Analysis {
 public:
  std::uint32_t depth(ClassId id) const { return depths_[id.index]; }
  void made(const EGraph&, ClassId id, const ENode& node) override {
    depths_.resize(std::max<std::size_t>(depths_.size(), id.index + 1));
    depths_[id.index] = of(node);
  }
  bool merged(EGraph&, ClassId into, ClassId from) override { return lower(into, depths_[from.index]); }
  bool remade(const EGraph&, ClassId id, const ENode& node) override { return lower(id, of(node)); }

 private:
  bool lower(ClassId id, std::uint32_t depth) {
    if (depth >= depths_[id.index]) return false;
    depths_[id.index] = depth;
    return true;
  }
  std::uint32_t of(const ENode& node) const {
    std::uint32_t depth = 0;
    for (const ClassId child : node.children) depth = std::max(depth, depths_[child.index] + 1);
    return depth;
  }
  std::vector<std::uint32_t> depths_;
};

TEST(Analysis, ReachesTheSameFixedPointAsStartingOver) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    Depth kept;
    EGraph graph(&kept, seed);
    const RandomGraph made(graph, random, 60, seed % 25);
    std::vector<std::uint32_t> depths(graph.class_limit(), 1000);
    for (bool changed = true; changed;) {
      changed = false;
      for (const ClassId id : graph.classes()) {
        for (const ENode& node : graph.nodes(id)) {
          std::uint32_t depth = 0;
          for (const ClassId child : node.children) depth = std::max(depth, depths[child.index] + 1);
          if (depth < depths[id.index]) {
            depths[id.index] = depth;
            changed = true;
          }
        }
      }
    }
    for (const ClassId id : graph.classes()) ASSERT_EQ(kept.depth(id), depths[id.index]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace xyntra::egraph
