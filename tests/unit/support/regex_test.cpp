#include "support/text/regex.h"

#include <gtest/gtest.h>

#include "support/text/letter_case.h"

namespace xyntra {
namespace {

const auto kFree = [](std::int64_t) { return Status(); };

bool matches(std::string_view pattern, std::string_view text) {
  const Regex regex = Regex::compile(pattern).value();
  return Regex::Matcher(regex).full_match(text, kFree).value();
}

struct Row {
  std::string_view pattern, text;
  bool matches;
};

TEST(Regex, matches_whole_texts) {
  constexpr Row kRows[] = {{"", "", true},
                           {"", "a", false},
                           {"abc", "abc", true},
                           {"abc", "abcd", false},
                           {"abc", "xabc", false},
                           {"a|bc|", "bc", true},
                           {"a|bc|", "", true},
                           {"a|bc", "abc", false},
                           {"(a|b)*c", "ababc", true},
                           {"(a|b)*c", "abab", false},
                           {"a+", "", false},
                           {"a+", "aaa", true},
                           {"a?b", "b", true},
                           {"a??b", "ab", true},
                           {"a*?", "aaa", true},
                           {"a{2}", "aa", true},
                           {"a{2}", "aaa", false},
                           {"a{2,}", "aaaa", true},
                           {"a{2,3}", "aaaa", false},
                           {"a{0}b", "b", true},
                           {"a{,2}", "a{,2}", true},
                           {"(ab){2}c{1,2}", "ababcc", true},
                           {"((a{2}){2}){2}", "aaaaaaaa", true},
                           {".", "\n", false},
                           {"(?s).", "\n", true},
                           {".", "\u4e2d", true},
                           {"..", "\u4e2d", false},
                           {"\\x{4e2d}", "\u4e2d", true},
                           {"\\x41", "A", true},
                           {"[a-c]+", "abc", true},
                           {"[^a-c]", "d", true},
                           {"[^a-c]", "a", false},
                           {"[]a]+", "]a", true},
                           {"[a-]+", "a-", true},
                           {"[\\d_]+", "1_2", true},
                           {"[[:alpha:]]+", "aZ", true},
                           {"[[:^alpha:]]", "a", false},
                           {"[^\\W]", "a", true},
                           {"\\w+@\\w+\\.com", "me_1@x.com", true},
                           {"\\D", "1", false},
                           {"\\s\\S", " a", true},
                           {"\\Qa.b\\E+", "a.b", true},
                           {"\\.", "a", false},
                           {"\\t\\n", "\t\n", true},
                           {"^abc$", "abc", true},
                           {"a^b", "ab", false},
                           {"(?m)a\n^b$", "a\nb", true},
                           {"a\\b b", "a b", true},
                           {"a\\Bb", "ab", true},
                           {"a\\bb", "ab", false},
                           {"(?i)abc", "aBC", true},
                           {"(?i:a)b", "AB", false},
                           {"(?i)[a-c]\u00c9", "B\u00e9", true},
                           {"(?i)[^a]", "A", false},
                           {"a(?i)b|c", "aB", true},
                           {"(?P<name>a)(?<other>b)(?:c)", "abc", true},
                           {"(a*)*", "aaaa", true},
                           {"(a|a)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
                           {"(www.|)[\\w]+.[\\w]+", "www.google.com", true}};
  for (const Row& row : kRows)
    EXPECT_EQ(matches(row.pattern, row.text), row.matches) << row.pattern << " on " << row.text;
}

TEST(Regex, refuses_what_it_cannot_do) {
  for (const char* pattern : {"(",        ")",        "a)",      "[a",     "[b-a]",       "*",    "a**",
                              "a{2}{3}*", "(?=a)",    "(?<=a)",  "(a)\\1", "\\pL",        "\\C",  "\\",
                              "(?P<>a)",  "[[:no:]]", "a{1001}", "a{3,2}", "\\x{110000}", "(?z)a"}) {
    const auto compiled = Regex::compile(pattern);
    ASSERT_FALSE(compiled.has_value()) << pattern;
    EXPECT_EQ(compiled.error().error_class, ErrorClass::BadModel) << pattern;
  }
  EXPECT_EQ(Regex::compile("a\xff").error().message, "the pattern is not UTF-8");
  EXPECT_EQ(Regex::compile("((a{100}){100}){100}").error().error_class, ErrorClass::Limit);
  EXPECT_EQ(Regex::compile(std::string(100, '(') + std::string(100, ')')).error().error_class,
            ErrorClass::Limit);
}

TEST(Regex, takes_linear_time) {
  // Exponential for who tries one way after the other.
  const Regex regex = Regex::compile("(a?){200}a{200}").value();
  std::int64_t steps = 0;
  const auto count = [&steps](std::int64_t more) { return steps += more, Status(); };
  EXPECT_TRUE(Regex::Matcher(regex).full_match(std::string(200, 'a'), count).value());
  EXPECT_LT(steps, 200 * 1000);
}

TEST(Regex, can_be_stopped) {
  const Regex regex = Regex::compile("a*").value();
  const auto stop = [](std::int64_t) -> Status { return limit_error("enough"); };
  EXPECT_EQ(Regex::Matcher(regex).full_match("aaa", stop).error().message, "enough");
}

TEST(LetterCase, one_character_for_one) {
  EXPECT_EQ(in_case("Stra\u00dfe \u00c9\u03a9\u0416\u0101", LetterCase::Lower),
            "stra\u00dfe \u00e9\u03c9\u0436\u0101");
  EXPECT_EQ(in_case("stra\u00dfe \u00e9\u03c9\u0436\u0101", LetterCase::Upper),
            "STRA\u00dfE \u00c9\u03a9\u0416\u0100");
  EXPECT_EQ(in_case("a\xff", LetterCase::Upper), "A\xff");
}

}  // namespace
}  // namespace xyntra
