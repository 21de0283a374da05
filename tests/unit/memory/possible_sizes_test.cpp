#include "memory/possible_sizes.h"

#include <gtest/gtest.h>

namespace xyntra {
namespace {

const Dim h = Dim::symbol("h"), r = Dim::symbol("r"), s = Dim::symbol("s");
const SymbolBindings kAssumed = {{"h", 128}, {"r", 128}, {"s", 128}};

std::optional<SymbolBindings> sizes_for(const std::vector<Dim>& bytes, const std::vector<Dim>& scratch = {}) {
  std::vector<BufferSpec> buffers;
  for (const Dim& one : bytes) buffers.push_back({one, BufferRole::Intermediate, std::nullopt, false});
  LaunchSpec launch;
  launch.scratch_bytes = scratch;
  return possible_sizes(buffers, std::vector{launch}, kAssumed);
}

TEST(PossibleSizes, WhatIsPossibleStays) { EXPECT_EQ(sizes_for({h * 4, h - r + 1}), kAssumed); }

TEST(PossibleSizes, WindowsGetRoom) {
  EXPECT_EQ(sizes_for({h - 200}), (SymbolBindings{{"h", 256}, {"r", 256}, {"s", 256}}));
}

// A dilated window as long as its feature map, whichever size both have, and one that is longer than 256.
TEST(PossibleSizes, SizesThatNeedOneAnotherAreSearched) {
  for (const std::vector<Dim>& bytes :
       {std::vector{(h - r * 2 + 2) * s}, std::vector{h - r * 2, r - s * 2}, std::vector{h - 2000, s - h}}) {
    const auto sizes = sizes_for(bytes);
    ASSERT_TRUE(sizes.has_value());
    for (const Dim& one : bytes) EXPECT_GE(one.evaluate(*sizes).value(), 0) << one.to_string();
  }
  EXPECT_TRUE(sizes_for({h}, {h - r * 2}).has_value());
}

TEST(PossibleSizes, ManyLongAxesAreShortened) {
  Dim bytes = 4;
  for (int axis = 0; axis < 9; ++axis) bytes = bytes * h;
  const auto sizes = sizes_for({bytes, r * s});
  ASSERT_TRUE(sizes.has_value());
  EXPECT_LT(bytes.evaluate(*sizes).value(), std::int64_t{1} << 55);
}

TEST(PossibleSizes, NothingWhereNoneIsFound) { EXPECT_EQ(sizes_for({h * 0 - 1 - r}), std::nullopt); }

// Whether they are too large says who verifies.
TEST(PossibleSizes, ConstantsAreNotSearched) { EXPECT_EQ(sizes_for({Dim(-4), h}), kAssumed); }

}  // namespace
}  // namespace xyntra
