#include "support/text/table.h"

#include <gtest/gtest.h>

#include "support/text/text.h"

namespace xyntra {
namespace {

using enum Table::Align;

TEST(CutInMiddle, KeepsTheEndsOfANameAndWholePartsOfAPath) {
  EXPECT_EQ(cut_in_middle("short", 5), "short");
  EXPECT_EQ(cut_in_middle("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(cut_in_middle("encoder/layer.0/attention/self/query/MatMul", 25), "encoder/layer.0/…/MatMul");
  EXPECT_EQ(cut_in_middle("/encoder/layer.0/attention/MatMul", 20), "/encoder/…/MatMul");
  EXPECT_EQ(cut_in_middle("a/bcdefghijklmnopqrstuvwxyz", 9), "a/bc…wxyz");  // the last part alone is too long
  EXPECT_EQ(cut_in_middle("张量张量张量", 5), "张…量");
  EXPECT_EQ(cut_in_middle("abc", 0), "");
  for (std::size_t width = 1; width < 40; ++width)
    EXPECT_LE(display_width(cut_in_middle("model/encoder/layer.11/output/dense/MatMul", width)), width);
}

TEST(Wrapped, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("hint: one two three", 11, 4), "hint: one\n    two\n    three");
  EXPECT_EQ(wrapped("averylongword x", 5), "averylongword\nx");
  EXPECT_EQ(wrapped("a  b", 80), "a  b");
  EXPECT_EQ(wrapped("a\n\nb", 80), "a\n\nb");
  EXPECT_EQ(wrapped("", 80), "");
}

TEST(Table, AlignsAndFillsShortRows) {
  Table table({Left, Right});
  table.header({"name", "size"});
  table.row({"größe", "3"});
  table.row({"x"});
  EXPECT_EQ(table.to_string(),
            "name   size\n"
            "-----  ----\n"
            "größe     3\n"
            "x\n");
}

TEST(Table, ProseWrapsAndThenNamesAreCut) {
  Table table({Name, Right, Prose});
  table.header({"node", "ms", "why"});
  table.row({"encoder/layer.0/attention/MatMul", "1.5",
             "what follows its main loop is not computed element by element"});
  table.row({"x", "2", "short"});
  EXPECT_EQ(table.to_string(70),
            "node                               ms  why\n"
            "--------------------------------  ---  -------------------------------\n"
            "encoder/layer.0/attention/MatMul  1.5  what follows its main loop is\n"
            "                                       not computed element by element\n"
            "x                                   2  short\n");
  EXPECT_EQ(table.to_string(50),
            "node                  ms  why\n"
            "-------------------  ---  ------------------------\n"
            "encoder/…/MatMul     1.5  what follows its main\n"
            "                          loop is not computed\n"
            "                          element by element\n"
            "x                      2  short\n");
}

TEST(Table, NeverCutsToWhatCannotBeRead) {
  Table table({Name, Right});
  table.row({"encoder/layer.0/attention/MatMul", "123456789"});
  EXPECT_EQ(table.to_string(10), "encoder/…/MatMul  123456789\n");
}

}  // namespace
}  // namespace xyntra
