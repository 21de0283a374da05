// Elements with non-temporal stores are made in four interleaved places: pages of a long row, or rows of pages.
#include <gtest/gtest.h>

#include <algorithm>

#include "lower/lower.h"
#include "unit/kir/sim/sim_testing.h"

namespace xyntra {
namespace {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Builder;

struct Case {
  std::int64_t outer, rows, length;
  std::string
      fourth;  // what the kernel of a machine with AVX-512 says of the last place; nothing: one after another
  bool l2 = false;  // prefetches what comes next into L2
};

// Whole pages and elements that fill none; rows that fill a page, two, some together or none; rows that are too few or short.
const Case kCases[] = {
    {1, 1, 8192, "g * 4096 + 3072 + b * 32"},
    {1, 1, 8193, "g * 4096 + 3072 + b * 32"},
    {1, 2, 12293, "g * 4096 + 3072 + b * 32"},
    {1, 1, 8191, ""},
    {1, 8, 1024, "g * 4 + 3, b * 32"},
    {2, 9, 1063, "g * 4 + 3, b * 32", true},
    {1, 35, 512, "g * 8 + 6 + i1, b * 32"},
    {1, 33, 768, "g * 16 + 12 + i1, b * 32", true},
    {1, 41, 600, "g * 8 + 6 + i1, b * 32", true},
    {1, 7, 1024, ""},
    {1, 64, 200, ""},
};

Shape shape_of(const Case& one) { return {one.outer, one.rows, one.length}; }

// y = x * 2 + w: no function, so that the simulator is quick.
te::Formula scaled(const Case& one) {
  Builder made("scaled");
  const Buffer x = made.input(0, "x", DType::F32, shape_of(one));
  const Buffer w = made.input(1, "w", DType::F32, {one.length});
  const Buffer y = made.output(0, "y", DType::F32, shape_of(one));
  const Axis o = made.axis(one.outer), r = made.axis(one.rows), k = made.axis(one.length);
  made.write(y, Axes{o, r, k}, x(o, r, k) * 2.0 + w(k));
  return std::move(made).finish();
}

// On a machine with so little cache that everything goes past it.
Result<kir::Kernel> lowered(const te::Formula& formula, const char* target_name) {
  Target target = **find_target(target_name);
  target.last_level_bytes = 64;
  XYNTRA_TRY(LoweredKernel made,
             lower(formula, Schedule{ScheduleKind::Pointwise, Exactness::Exact, {}}, target, {}, "k"));
  return std::move(made.kernel);
}

TEST(Places, FourInterleavedWhereThereAreSo) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(::testing::Message() << one.outer << " x " << one.rows << " x " << one.length);
    auto kernel = lowered(scaled(one), "avx512");
    ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
    const std::string text = kir::to_string(*kernel);
    auto has = [&](const std::string& what) { return text.find(what) != std::string::npos; };
    if (one.fourth.empty()) {
      EXPECT_FALSE(has("3072 + b") || has("g * 4 + 3") || has("g * 8 + 6")) << text;
    } else {
      EXPECT_TRUE(has(one.fourth)) << text;
    }
    EXPECT_EQ(has("prefetch_l2"), one.l2) << text;
  }
}

// The simulator looks at every access; each element is written, and by one work item.
TEST(Places, EveryElementIsMade) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(::testing::Message() << one.outer << " x " << one.rows << " x " << one.length);
    const auto length = static_cast<std::size_t>(one.length);
    const std::vector<float> x = kir::counting(static_cast<std::size_t>(one.outer * one.rows) * length, 1);
    const std::vector<float> w = kir::counting(length, -7);
    std::vector<float> expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = x[i] * 2 + w[i % length];
    for (const char* target : {"avx2", "avx512", "neon"}) {
      SCOPED_TRACE(target);
      auto kernel = lowered(scaled(one), target);
      ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
      kir::Arguments arguments;
      arguments.add(x).add(w).add(std::vector<float>(x.size()));
      ASSERT_EQ(kir::run(*kernel, arguments), "");
      EXPECT_EQ(arguments.get<float>(2), expected);
    }
  }
}

// Rows that lie across their operand go square by square; those of that size that lie along it do not.
TEST(Places, OnlyWhatIsReadInOrder) {
  auto text_of = [](bool transposed) {
    Builder made("transposed");
    const Shape shape = transposed ? Shape{1024, 64} : Shape{64, 1024};
    const Buffer x = made.input(0, "x", DType::F32, shape);
    const Buffer y = made.output(0, "y", DType::F32, {64, 1024});
    const Axis i = made.axis(64), j = made.axis(1024);
    made.write(y, Axes{i, j}, transposed ? x(j, i) : x(i, j));
    auto kernel = lowered(std::move(made).finish(), "avx512");
    return kernel ? kir::to_string(*kernel) : kernel.error().message;
  };
  auto has_places = [&](bool transposed) {
    const std::string text = text_of(transposed);
    return text.find("3072 + b") != std::string::npos || text.find("g * 4 + 3") != std::string::npos;
  };
  EXPECT_TRUE(has_places(false)) << text_of(false);
  EXPECT_FALSE(has_places(true)) << text_of(true);
}

// Rows of a table: nobody asks for what later indices say, for there may be none.
TEST(Places, RowsThatAreLookedUp) {
  constexpr std::int64_t kRows = 16, kLength = 1024;
  Builder made("lookup");
  const Buffer x = made.input(0, "x", DType::F32, {40, kLength});
  const Buffer rows = made.input(1, "rows", DType::I64, {kRows});
  const Buffer y = made.output(0, "y", DType::F32, {kRows, kLength});
  const Axis i = made.axis(kRows), k = made.axis(kLength);
  made.write(y, Axes{i, k}, x(rows(i), k));
  auto kernel = lowered(std::move(made).finish(), "avx512");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  const std::string text = kir::to_string(*kernel);
  EXPECT_EQ(text.find("prefetch"), std::string::npos) << text;
  EXPECT_NE(text.find("g * 4 + 3"), std::string::npos) << text;
  std::vector<std::int64_t> looked_up;
  for (std::int64_t row = 0; row < kRows; ++row) looked_up.push_back(row * 7 % 40);
  const std::vector<float> table = kir::counting(std::size_t{40} * kLength);
  kir::Arguments arguments;
  arguments.add(table).add(looked_up).add(std::vector<float>(std::size_t{kRows} * kLength));
  ASSERT_EQ(kir::run(*kernel, arguments), "");
  const std::vector<float> got = arguments.get<float>(2);
  for (std::size_t e = 0; e < got.size(); ++e) {
    const auto row = static_cast<std::size_t>(looked_up[e / kLength]);
    ASSERT_EQ(got[e], table[row * kLength + e % kLength]);
  }
}

// A function keeps as many vectors busy as registers hold.
TEST(Places, FunctionsHaveTheirVectorsTogether) {
  Builder made("function");
  const Buffer x = made.input(0, "x", DType::F32, {8192});
  const Buffer y = made.output(0, "y", DType::F32, {8192});
  const Axis i = made.axis(8192);
  made.write(y, Axes{i}, tanh(x(i)));
  auto kernel = lowered(std::move(made).finish(), "avx512");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  EXPECT_NE(kir::to_string(*kernel).find("vector l < 64"), std::string::npos) << kir::to_string(*kernel);
}

}  // namespace
}  // namespace xyntra
