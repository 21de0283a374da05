#include "types/dim.h"

#include <gtest/gtest.h>
#include <chrono>

#include <array>

namespace xyntra {
namespace {

const Dim n = Dim::symbol("n");
const Dim m = Dim::symbol("m");

TEST(Dim, PolynomialsHaveOneForm) {
  EXPECT_EQ(n * 2 + n, n * 3);
  EXPECT_EQ((n + 1) * (m - 1), n * m - n + m - 1);
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_TRUE((n - n).is_constant());
  EXPECT_TRUE(n.is_symbol());
  EXPECT_FALSE((n + 1).is_symbol());
}

TEST(Dim, DivisionIsExactWhereItCanBe) {
  EXPECT_EQ(floor_div(n * 768, Dim(768)), n);
  EXPECT_EQ(floor_div(n * m * 768, n * m), Dim(768));
  EXPECT_EQ(floor_div(n * 768, n * m * 0 + n), Dim(768));
  EXPECT_EQ(floor_div(Dim(-7), Dim(2)), Dim(-4));
  EXPECT_EQ(floor_div(n * 32 + 7, Dim(8)), n * 4);
  EXPECT_EQ(floor_div(n * 8 - 1, Dim(8)), n - 1);
  EXPECT_EQ(modulo(Dim(-7), Dim(2)), Dim(1));
  EXPECT_EQ(modulo(n * 4, Dim(2)), Dim(0));
  EXPECT_EQ(floor_div(n + 1, Dim(2)).to_string(), "floordiv(n + 1, 2)");
  EXPECT_EQ(floor_div(n, Dim(0)).evaluate({{"n", 3}}).value(), 0);
}

TEST(Dim, MaxAndMinDecideWhenTheDifferenceIsKnown) {
  EXPECT_EQ(max(n, n + 1), n + 1);
  EXPECT_EQ(min(n, n + 1), n);
  EXPECT_EQ(max(n, m), max(m, n));
  EXPECT_EQ(floor_div(n * 2048 + m * 2048, n * 128 + m * 128), Dim(16));
  EXPECT_EQ(floor_div(n * m + n * n + n, n + m + 1), n);
  EXPECT_EQ(floor_div((m + 1) * (n + 1) * 120, n + 1), (m + 1) * 120) << "whatever the order of their terms";
  EXPECT_EQ(floor_div((m + 1) * (n + 1) * 120, m + 1), (n + 1) * 120);
  EXPECT_EQ(floor_div((m * m + n) * (n * n + m + 3), n * n + m + 3), m * m + n);
  EXPECT_NE(floor_div(n * 3 + m * 2, n + m), Dim(2));
  EXPECT_EQ(max(n, min(Dim(512), n)), n) << "a slice of what there is, beside the whole";
  EXPECT_EQ(min(max(n, m), n), n);
  EXPECT_EQ(max(max(n, m), n), max(n, m));
  EXPECT_NE(max(n, min(m, Dim(512))), n);
}

TEST(Dim, BroadcastIsTheSizeThatIsNotOne) {
  const Dim both = broadcast(n, m);
  EXPECT_EQ(broadcast(n, Dim(1)), n);
  EXPECT_EQ(broadcast(Dim(4), n), Dim(4));
  EXPECT_EQ(broadcast(Dim(0), n), Dim(0));
  EXPECT_EQ(both, broadcast(m, n));
  EXPECT_EQ(broadcast(both, m), both);
  EXPECT_EQ(broadcast(min(Dim(512), n), n), n);  // or the sizes do not fit
  EXPECT_EQ(broadcast(n, min(n, Dim(2))), n);
  EXPECT_NE(broadcast(min(Dim(1), n), n), n);  // of n = 0 beside 1
  for (const auto& [a, b, size] : {std::array{3, 3, 3}, std::array{1, 5, 5}, std::array{5, 1, 5},
                                   std::array{0, 1, 0}, std::array{1, 0, 0}})
    EXPECT_EQ(both.evaluate({{"n", a}, {"m", b}}).value(), size) << a << " and " << b;
  EXPECT_EQ(both.range({{"n", {0, 8}}, {"m", {0, 4}}}), (Range{0, 8}));
  EXPECT_EQ(both.range({{"n", {1, 8}}, {"m", {2, 4}}}), (Range{2, 8}));
  EXPECT_TRUE((max(n, m) - both).never_negative());
  EXPECT_FALSE((both - n).never_negative()) << "of 1 and 0 it is 0";
  EXPECT_TRUE((both - n).never_negative({{"n", {1, 9}}, {"m", {1, 9}}}));
}

TEST(Dim, SaturatesInsteadOfWrapping) {
  Dim huge(std::int64_t{1} << 42);
  EXPECT_EQ(huge * huge, Dim(std::int64_t{1} << 62));
}

TEST(Dim, TextRoundTrips) {
  for (const Dim& dim : {Dim(0), Dim(-3), n, n * 2 - m * 3 + 1, floor_div(n + 1, Dim(2)) * m, max(n, m * m),
                         broadcast(n, m + 1), Dim::symbol("batch size'\n"), Dim::symbol("max"), Dim(0) - n}) {
    auto back = Dim::parse(dim.to_string());
    ASSERT_TRUE(back.has_value()) << dim.to_string() << ": " << back.error().message;
    EXPECT_EQ(*back, dim) << dim.to_string();
  }
  EXPECT_FALSE(Dim::parse("n +").has_value());
  EXPECT_FALSE(Dim::parse(std::string(200, '(')).has_value());
}

TEST(Dim, ShortTextCannotBecomeALongPolynomial) {
  std::string product = "(a0 + b0)";
  for (int i = 1; i < 60; ++i) product += "*(a" + std::to_string(i) + " + b" + std::to_string(i) + ")";
  auto refused = Dim::parse(product);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("this product has too many terms"), std::string::npos);
}

TEST(Dim, RangesFollowArithmetic) {
  SymbolRanges ranges{{"n", {1, 512}}};
  EXPECT_EQ((n * 2 - 1).range(ranges), (Range{1, 1023}));
  EXPECT_EQ(floor_div(n + 1, Dim(2)).range(ranges), (Range{1, 256}));
  EXPECT_EQ(m.range(ranges), (Range{0, INT64_MAX}));
}

TEST(Dim, EvaluatesAndNamesWhatIsMissing) {
  EXPECT_EQ((n * m + 1).evaluate({{"n", 2}, {"m", 3}}).value(), 7);
  auto missing = (n * m).evaluate({{"n", 2}});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message, "the size 'm' has no value");
}

// Multiplied out these would have 2^40 terms, and the last one a key of 2^40 characters.
TEST(Dim, LongExpressionsBecomeSymbols) {
  Dim product = 1, nested = n;
  for (int i = 0; i < 40; ++i) {
    product = product * (Dim::symbol("a" + std::to_string(i)) + Dim::symbol("b" + std::to_string(i)));
    nested = nested + floor_div(nested, Dim(2));
  }
  EXPECT_LT(product.to_string().size(), 40000u);
  EXPECT_LT(nested.to_string().size(), 40000u);
  EXPECT_EQ(product - product, Dim(0));
  const Dim other = product + 1;
  EXPECT_FALSE(other == product);
}

TEST(Dim, KnowsWhatIsNeverNegative) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const Dim tiles = floor_div(n, 16), covering = ceil_div(n, 16);
  EXPECT_TRUE((n - tiles * 16).never_negative());
  EXPECT_FALSE((n - tiles * 16 - 1).never_negative());
  EXPECT_TRUE((tiles * 16 + 15 - n).never_negative());
  EXPECT_FALSE((tiles * 16 + 14 - n).never_negative());
  EXPECT_TRUE((covering * 16 - n).never_negative());
  EXPECT_TRUE(((n - tiles * 16) * m).never_negative());
  EXPECT_TRUE((n - modulo(n, 16)).never_negative());
  EXPECT_TRUE((n - min(n, m)).never_negative());
  EXPECT_TRUE((max(n, m) - m).never_negative());
  EXPECT_FALSE((n - max(n, m)).never_negative());
}

// Maps of convolutions with stride 2, one after another.
TEST(Dim, DivisionsOfDivisionsAreOne) {
  const Dim n = Dim::symbol("n");
  Dim size = n;
  for (int layer = 0; layer < 5; ++layer) size = floor_div(size - 1, 2) + 1;
  EXPECT_EQ(size.to_string(), "floordiv(n + 31, 32)");
  const Dim nested = floor_div(floor_div(n, 3) - 2, 4);
  EXPECT_EQ(nested.to_string(), "floordiv(n + 6, 12) - 1");
  for (std::int64_t value = -40; value < 40; ++value) {
    const std::int64_t third = floor_div(Dim(value), 3).constant();
    EXPECT_EQ(nested.substitute({{"n", value}}), floor_div(Dim(third - 2), 4)) << value;
  }
  EXPECT_TRUE((floor_div(n, 4) * 2 - floor_div(n, 2) + 1).never_negative());
  EXPECT_TRUE((floor_div(n, 2) - floor_div(n, 4) * 2).never_negative());
}

TEST(Dim, MultiplesAreTakenOutOfDivisions) {
  const Dim height = Dim::symbol("h"), width = Dim::symbol("w");
  const Dim rows = floor_div(height - 1, 2) + 1, columns = floor_div(width - 1, 2) + 1;
  EXPECT_EQ((rows * columns).to_string(), "floordiv(h + 1, 2)*floordiv(w + 1, 2)");
  EXPECT_TRUE((rows * columns).never_negative());
  EXPECT_EQ(floor_div(height + 37, 16), floor_div(height + 5, 16) + 2);
}

TEST(Dim, QuotientsOfQuotientsAreBounded) {
  const Dim n = Dim::symbol("n"), h = Dim::symbol("h"), quarter = floor_div(n + 3, 4);
  const Dim vectors = floor_div(quarter, 16), tiles = ceil_div(quarter, 14);
  EXPECT_TRUE((quarter * 2 - vectors * 32).never_negative());
  EXPECT_TRUE((quarter * h - vectors * h * 16).never_negative());
  EXPECT_FALSE((quarter * h - vectors * h * 16 - 1).never_negative());
  EXPECT_TRUE((tiles * 14 - quarter).never_negative());
  EXPECT_TRUE((tiles * h * 14 - quarter * h).never_negative());
  EXPECT_TRUE((quarter - tiles * 14 + 13).never_negative());
  EXPECT_FALSE((quarter - tiles * 14 + 12).never_negative());
}

// What is asked again under other ranges has another answer.
TEST(Dim, AnswersAreKeptBesideTheirRanges) {
  const Dim n = Dim::symbol("n"), least = floor_div(n, 2) - 3;
  for (int time = 0; time < 3; ++time) {
    EXPECT_FALSE(least.never_negative());
    EXPECT_TRUE(least.never_negative({{"n", {6, 100}}}));
    EXPECT_FALSE(least.never_negative({{"n", {5, 100}}}));
  }
}

// Sizes of a transposed convolution, flattened: dozens of terms, each with a minimum to replace.
TEST(Dim, GivesUpOnLongSumsSoon) {
  Dim elements(1);
  for (int i = 0; i < 5; ++i) {
    const Dim kernel = Dim::symbol("k" + std::to_string(i)), size = Dim::symbol("x" + std::to_string(i));
    elements = elements * (min(Dim(3), kernel) + size * 3 - 3);
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i)
    EXPECT_FALSE((elements - floor_div(elements, 16) * 16 - 5 - i).never_negative());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

}  // namespace
}  // namespace xyntra
