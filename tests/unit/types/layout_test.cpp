#include "types/layout.h"

#include <gtest/gtest.h>

namespace xyntra {
namespace {

TEST(LayoutTest, TextReadsBack) {
  for (const char* text : {"[]", "[0, 1/16, 2, 3, 1%16]", "[1/32, 0, 1%32]", "[0/64, 0/8%8, 0%8]",
                           "[0, 1+(room), 2]", "[0, 1+(max(2, room) + 1)]"}) {
    auto layout = parse_layout(text);
    ASSERT_TRUE(layout.has_value()) << text;
    EXPECT_EQ(to_string(*layout), text);
  }
}

TEST(LayoutTest, WhatIsNoLayoutIsRefused) {
  for (const char* text : {"", "[", "[0", "[0,1]", "[0, 1/]", "[0, 1/1]", "[0, 1%0]", "[-1]", "[99]", "[0] ",
                           "0, 1", "[0+]", "[0+room]", "[0+(]", "[0+()]", "[0+(0)]"}) {
    EXPECT_FALSE(parse_layout(text).has_value()) << text;
  }
}

TEST(LayoutTest, EveryElementNeedsAPlaceOfItsOwn) {
  const Shape shape{2, 64, 7, 7};
  auto check = [&shape](const char* text) { return check_layout(*parse_layout(text), shape).has_value(); };
  EXPECT_TRUE(check("[]"));
  EXPECT_TRUE(check("[0, 1/16, 2, 3, 1%16]"));
  EXPECT_TRUE(check("[3, 2, 1, 0]"));
  EXPECT_TRUE(check("[0, 1/32, 2, 3, 1/8%4, 1%8]"));
  EXPECT_FALSE(check("[0, 1/16, 2, 3]")) << "the channels of a block would share a place";
  EXPECT_FALSE(check("[0, 1/16, 2, 3, 1%8]")) << "a block holds fewer than it has";
  EXPECT_FALSE(check("[0, 1, 2]")) << "an axis is missing";
  EXPECT_FALSE(check("[0, 1, 2, 3, 3]")) << "an axis stands twice";
  EXPECT_FALSE(check("[0, 1/48, 2, 3, 1%48]")) << "64 is no multiple of 48";
  EXPECT_FALSE(check("[0, 1, 2, 3, 4]")) << "there is no axis 4";
  EXPECT_TRUE(check("[0, 1, 2+(room), 3]"));
  EXPECT_FALSE(check("[0, 1, 2+(room - 1), 3]")) << "there may be less than no room";
  EXPECT_FALSE(check("[0, 1/16+(room), 2, 3, 1%16]")) << "room inside of an axis";
}

TEST(LayoutTest, PhysicalShape) {
  EXPECT_EQ(to_string(physical_shape(*parse_layout("[0, 1/16, 2, 3, 1%16]"), {2, 64, 7, 7})),
            "[2, 4, 7, 7, 16]");
  const Layout roomy = with_room(3, 1, Dim::symbol("room") + 1);
  EXPECT_EQ(to_string(roomy), "[0, 1+(room + 1), 2]");
  EXPECT_TRUE(leaves_room(roomy));
  EXPECT_EQ(to_string(physical_shape(roomy, {2, Dim::symbol("past"), 7})), "[2, past + room + 1, 7]");
}

}  // namespace
}  // namespace xyntra
