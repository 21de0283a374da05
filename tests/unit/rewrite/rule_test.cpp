#include "rewrite/rules/rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "rewrite/rules/rule_set.h"

namespace xyntra {
namespace {

std::string refusal(RuleText text) {
  text.name = "r";
  text.place = "table";
  const auto parsed = parse_rule(std::move(text));
  return parsed ? "" : parsed.error().message;
}

TEST(RuleText, ReadsArithmetic) {
  const auto term = parse_rule_term("x * 0.5 * (1 + Erf(x / sqrt2))");
  ASSERT_TRUE(term);
  EXPECT_EQ(term->op->name, "Mul");
  EXPECT_EQ(term->children[0].children[1].number, 0.5);
  EXPECT_EQ(term->children[1].op->name, "Add");
  EXPECT_NEAR(parse_rule_term("2 / (3 - 1)")->number, 1, 0);
  EXPECT_TRUE(std::signbit(parse_rule_term("-0")->number));
}

TEST(RuleText, ReadsAttributes) {
  const auto term = parse_rule_term("Conv{*c, group=1, pads=[0, -1]}(x, w, _)");
  ASSERT_TRUE(term) << term.error().message;
  EXPECT_EQ(term->rest, "c");
  EXPECT_EQ(std::get<std::int64_t>(term->attributes[0].second.literal), 1);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(term->attributes[1].second.literal)[1], -1);
  EXPECT_EQ(term->children.size(), 2u);
}

TEST(RuleText, RefusesBadRulesWithTheirPlace) {
  EXPECT_EQ(refusal({.left = "Relu(x)", .right = "y"}),
            "rule \"r\" (table): right: variable 'y' does not stand on the left side");
  EXPECT_EQ(refusal({.left = "Reul(x)", .right = "x"}),
            "rule \"r\" (table): left: column 1: there is no operator 'Reul'");
  EXPECT_EQ(refusal({.left = "Softmax{axes=1}(x)", .right = "x"}),
            "rule \"r\" (table): left: column 13: operator Softmax has no attribute 'axes'");
  EXPECT_EQ(refusal({.left = "Relu(x, x)", .right = "x"}),
            "rule \"r\" (table): left: operator Relu has at most 1 operands, not 2");
  EXPECT_EQ(refusal({.left = "MatMul(x)", .right = "x"}),
            "rule \"r\" (table): left: operator MatMul needs its operand 'b'");
  EXPECT_EQ(refusal({.left = "x", .right = "x"}), "rule \"r\" (table): left: must be an operation");
  EXPECT_EQ(refusal({.left = "Relu(x", .right = "x"}),
            "rule \"r\" (table): left: column 7: expected ',', found the end");
  EXPECT_EQ(refusal({.left = "Relu(x)", .right = "x", .guard = "large(x)"}),
            "rule \"r\" (table): guard: there is no condition 'large'");
  EXPECT_EQ(refusal({.left = "Relu(x)", .right = "x", .guard = "rank(x)"}),
            "rule \"r\" (table): guard: 'rank' takes 2 arguments, not 1");
  EXPECT_EQ(refusal({.left = "Softmax{axis=k}(x)", .right = "x", .guard = "constant(k)"}),
            "rule \"r\" (table): guard: argument 1 of 'constant' must be a value");
  EXPECT_EQ(refusal({.left = "Relu(x)", .right = "@none(x)"}),
            "rule \"r\" (table): right: column 9: there is no function '@none'");
  EXPECT_NE(refusal({.left = std::string(300, '('), .right = "x"}).find("nested too deep"),
            std::string::npos);
}

TEST(RuleSet, RefusesTwoRulesOfOneName) {
  const std::vector<RuleText> rules = {{.name = "r", .left = "Relu(x)", .right = "x", .place = "a"},
                                       {.name = "r", .left = "Neg(x)", .right = "x", .place = "b"}};
  const auto set = RuleSet::parse(rules);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().message, "rule \"r\" (b): there is one of this name already (a)");
}

TEST(RuleSet, TablesAreWellFormed) {
  const auto set = RuleSet::parse(built_in_rules());
  ASSERT_TRUE(set) << set.error().message;
  for (const egraph::Rule& rule : set->compile({true, true})) {
    const auto checked = rule.check();
    EXPECT_TRUE(checked) << checked.error().message;
  }
}

}  // namespace
}  // namespace xyntra
