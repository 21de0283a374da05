#include "support/text/text_diff.h"

#include <gtest/gtest.h>

#include <random>

#include "support/text/text.h"

namespace xyntra {
namespace {

TEST(LineDiff, NothingChanged) {
  EXPECT_EQ(line_diff("", ""), "");
  EXPECT_EQ(line_diff("a\nb\n", "a\nb\n"), "");
}

TEST(LineDiff, OneLineInTheMiddle) {
  EXPECT_EQ(line_diff("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nfour\n5\n6\n7\n", 1),
            "@@ -3 +3 @@\n 3\n-4\n+four\n 5\n");
}

TEST(LineDiff, FarChangesAreTwoParts) {
  EXPECT_EQ(line_diff("a\n1\n2\n3\n4\nb\n", "x\n1\n2\n3\n4\n", 1),
            "@@ -1 +1 @@\n-a\n+x\n 1\n@@ -5 +5 @@\n 4\n-b\n");
}

TEST(LineDiff, FromAndToNothing) {
  EXPECT_EQ(line_diff("", "a\nb\n"), "@@ -1 +1 @@\n+a\n+b\n");
  EXPECT_EQ(line_diff("a\nb\n", ""), "@@ -1 +1 @@\n-a\n-b\n");
}

// Applied to the one text, the whole script gives the other.
TEST(LineDiff, RandomTextsCanBeRebuilt) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::string before, after;
    for (int i = static_cast<int>(random() % 12); i > 0; --i)
      before += std::string(1, "abc"[random() % 3]) + "\n";
    for (int i = static_cast<int>(random() % 12); i > 0; --i)
      after += std::string(1, "abc"[random() % 3]) + "\n";
    if (before == after) continue;
    std::string old_text, new_text;
    const std::string script = line_diff(before, after, 100);
    for (std::string_view line : split(script, '\n')) {
      if (line.empty() || line[0] == '@') continue;
      if (line[0] != '+') old_text += std::string(line.substr(1)) + "\n";
      if (line[0] != '-') new_text += std::string(line.substr(1)) + "\n";
    }
    EXPECT_EQ(old_text, before);
    EXPECT_EQ(new_text, after);
  }
}

TEST(LineDiff, AllDifferentIsStillAnAnswer) {
  std::string before, after;
  for (int i = 0; i < 4000; ++i)
    before += "a" + std::to_string(i) + "\n", after += "b" + std::to_string(i) + "\n";
  EXPECT_EQ(line_diff(before, after).size(),
            before.size() + after.size() + 8000 + std::string("@@ -1 +1 @@\n").size());
}

}  // namespace
}  // namespace xyntra
