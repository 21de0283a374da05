#include "rewrite/rules/user_rules.h"

#include <gtest/gtest.h>

#include "types/settings.h"

namespace xyntra {
namespace {

Result<RewriteOptions> options_of(const std::string& toml) {
  Config config(known_settings(), known_records());
  const auto read = config.read_text(toml, "fusion.toml");
  if (!read) return failure(read.error());
  return rewrite_options_of(config);
}

TEST(UserRules, AreReadFromTheConfiguration) {
  const auto options = options_of(R"toml(
[rewrite]
forbid = "reassociating"
[[rules]]
name = "mine"
left = "Relu(Abs(x))"
right = "Abs(x)"
)toml");
  ASSERT_TRUE(options) << options.error().to_string();
  EXPECT_FALSE(options->allow_reassociating);
  ASSERT_EQ(options->user_rules.size(), 1u);
  EXPECT_EQ(options->user_rules[0].place, "fusion.toml:4");
}

std::string refusal(const std::string& toml) {
  const auto options = options_of(toml);
  return options ? "" : options.error().message.substr(0, options.error().message.find('\n'));
}

TEST(UserRules, AreRefusedWithTheirLine) {
  EXPECT_EQ(refusal("[[rules]]\nname = 'a'\nleft = 'Relu(x)'\n"),
            "fusion.toml:1:1: 'right' is missing in [[rules]]");
  EXPECT_EQ(refusal("[[rules]]\nname = 'a'\nleft = 'Relu(x)'\nright = 'y'\n"),
            "rule \"a\" (fusion.toml:1): right: variable 'y' does not stand on the left side");
  EXPECT_EQ(refusal("[[rules]]\nname = 'silu'\nleft = 'Relu(x)'\nright = 'x'\n"),
            "rule \"silu\" (fusion.toml:1): there is one of this name already (activation.def)");
  EXPECT_EQ(refusal("[[rules]]\nname = 'a'\nleft = 'Relu(x)'\nright = 'x'\nguard = 'all_true(x)'\n"),
            "rule \"a\" (fusion.toml:1): it never fires");
  EXPECT_EQ(refusal("[[rules]]\nname = 'a'\nleft = 'Relu(x)'\nright = 'x'\nclass = 'odd'\n"),
            "rule \"a\" (fusion.toml:1): there is no class 'odd': it is exact, reassociating or "
            "precision-changing");
  EXPECT_EQ(refusal("[[rules]]\nname = 'a'\nleft = 'Relu(x)'\nright = 'x'\n")
                .starts_with("rule \"a\" (fusion.toml:1): it is not exact: element"),
            true);
}

TEST(UserRules, PatternsAreReadAsSteps) {
  Config config(known_settings(), known_records());
  ASSERT_TRUE(config.read_text("[[patterns]]\nname = 'p'\nops = 'matmul -> bias -> gelu -> dropout'\n",
                               "fusion.toml"));
  const auto patterns = user_patterns_of(config);
  ASSERT_TRUE(patterns) << patterns.error().to_string();
  EXPECT_EQ(patterns->at(0).ops, (std::vector<std::string>{"matmul", "bias", "gelu", "dropout"}));
  ASSERT_TRUE(config.read_text("[[patterns]]\nname = 'p'\nops = 'matmul -> geul'\n", "fusion.toml"));
  EXPECT_EQ(user_patterns_of(config).error().message,
            "pattern \"p\" (fusion.toml:1): 'geul' is no operator; write them as matmul -> bias -> gelu");
}

}  // namespace
}  // namespace xyntra
