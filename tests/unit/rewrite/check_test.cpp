// Every rule of every table holds to its class.
#include "rewrite/rules/check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rewrite/rules/rule_set.h"

namespace xyntra {
namespace {

class EveryRule : public testing::TestWithParam<std::size_t> {};

TEST_P(EveryRule, Holds) {
  const ParsedRule& rule = RuleSet::built_in().rules()[GetParam()];
  const RuleCheck check = check_rule(rule);
  EXPECT_EQ(check.failure, "") << rule.text.name << " (" << rule.text.place << ")";
}

std::string name_of_case(const testing::TestParamInfo<std::size_t>& info) {
  std::string name = RuleSet::built_in().rules()[info.param].text.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Tables, EveryRule,
                         testing::Range(std::size_t{0}, RuleSet::built_in().rules().size()), name_of_case);

RuleCheck check_text(RuleText text) {
  text.name = "tested";
  const auto rule = parse_rule(std::move(text));
  EXPECT_TRUE(rule);
  return check_rule(*rule);
}

TEST(CheckRule, FindsRulesThatDoNotHold) {
  EXPECT_NE(check_text({.left = "x - x", .right = "x * 0"}).failure, "");  // signs, infinities
  EXPECT_NE(check_text({.left = "x + 0", .right = "x"}).failure, "");      // the sign of zero
  EXPECT_NE(check_text({.left = "(x + y) - y", .right = "x", .rule_class = RuleClass::Reassociating}).failure,
            "");
  EXPECT_NE(
      check_text({.left = "Erf(x)", .right = "Tanh(x)", .rule_class = RuleClass::Reassociating}).failure, "");
}

TEST(CheckRule, FindsRulesWithoutEnd) {
  const RuleCheck check = check_text({.left = "Abs(x)", .right = "Abs(x * 1)"});
  EXPECT_TRUE(check.failure.starts_with("it applies to its own result without end")) << check.failure;
}

TEST(CheckRule, FindsRulesThatNeverFire) {
  EXPECT_EQ(check_text({.left = "Relu(x)", .right = "x", .guard = "integer(x), float(x)"}).failure,
            "it never fires");
}

}  // namespace
}  // namespace xyntra
