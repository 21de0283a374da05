#include "support/text/json.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace xyntra {
namespace {

TEST(Json, PairsWithATextMakeAnObjectTheRestAnArray) {
  EXPECT_EQ((Json{{"a", 1}, {"b", Json()}}).dump(-1), R"({"a":1,"b":null})");
  EXPECT_EQ((Json{1, "two", 3.5, true}).dump(-1), R"([1,"two",3.5,true])");
  EXPECT_EQ((Json{{1, 2}, {3, 4}}).dump(-1), "[[1,2],[3,4]]");
  EXPECT_EQ((Json{{"sizes", {1, 2}}, {"knobs", {{"tile", 8}}}}).dump(-1),
            R"({"sizes":[1,2],"knobs":{"tile":8}})");
}

TEST(Json, KeysStayInTheOrderInWhichTheyWereSet) {
  Json json;
  json["z"] = 1;
  json["a"].push_back("first");
  json["z"] = 2;
  json.update({{"m", std::vector<std::string>{"x", "y"}}, {"a", std::map<std::string, int>{{"k", 7}}}});
  EXPECT_EQ(json.dump(-1), R"({"z":2,"a":{"k":7},"m":["x","y"]})");
}

TEST(Json, EscapesWhatATerminalWouldObey) {
  // C0, DEL, C1, bidi, zero width, tags; the rest stays as it is.
  EXPECT_EQ(Json("\x1b[31m\x7f\xc2\x9b \xe2\x80\xae \xef\xbb\xbf \xf3\xa0\x80\x81 größe").dump(-1),
            R"("\u001b[31m\u007f\u009b \u202e \ufeff \udb40\udc01 größe")");
  const Json json{{"\xc2\x9b", "\xe2\x80\xae\xf3\xa0\x80\x81"}};
  EXPECT_EQ(Json::parse(json.dump(1)), json);
}

TEST(Json, ReadsWhatItWrites) {
  const Json json{{"low", INT64_MIN},      {"high", UINT64_MAX}, {"text", "\"\n\\"},
                  {"list", Json::array()}, {"none", Json()},     {"real", 0.1}};
  EXPECT_EQ(Json::parse(json.dump(2)), json);
  EXPECT_EQ(Json::parse("{"), std::nullopt);
  EXPECT_EQ(Json::parse("1")->number(), 1.0);
  EXPECT_EQ(Json::parse("nan"), std::nullopt);
}

TEST(Json, ReplacesWhatIsNotUtf8) { EXPECT_EQ(Json("a\xff").dump(0), "\"a\xEF\xBF\xBD\""); }

TEST(Json, AWrongQuestionIsABrokenInvariant) {
  const Json json{{"a", Json{1}}};
  EXPECT_THROW(json["b"], InternalError);
  EXPECT_THROW(json["a"][1], InternalError);
  EXPECT_THROW(Json(1).push_back(2), InternalError);
  EXPECT_EQ(json["a"].find("b"), nullptr);
}

}  // namespace
}  // namespace xyntra
