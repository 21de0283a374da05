// Rows with non-temporal stores: a work item writes one while it makes the next, or some together.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lower/lower.h"
#include "unit/kir/sim/sim_testing.h"

namespace xyntra {
namespace {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Builder;
using te::Expr;
using te::Reducer;

// What kernels of these forms have.
constexpr const char* kInFlight = "for pair < 16";
constexpr const char* kGuessed = "<= 4";  // a maximum that was guessed from a row's beginning is near enough
constexpr const char* kTogether = "[rows * 4 + 3, ";

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Rows {
  std::int64_t count, length;
};
// Rounds that are whole, and elements that fill no round or no vector; rows that fill no work item.
constexpr Rows kCases[] = {{132, 128}, {139, 213}, {170, 64}, {150, 101}};

using Exponent = std::function<Expr(const Expr& x, const Expr& most)>;
using Share = std::function<Expr(const Expr& element, const Expr& sum)>;

// A softmax, or what is like one: with other exponents, or with something else made of them and their sum.
te::Formula softmax(
    const Rows& rows,
    const Exponent& exponent = [](const Expr& x, const Expr& most) { return exp(x - most); },
    const Share& share = [](const Expr& element, const Expr& sum) { return element / sum; }) {
  Builder made("softmax");
  const Buffer x = made.input(0, "x", DType::F32, {rows.count, rows.length});
  const Buffer y = made.output(0, "y", DType::F32, {rows.count, rows.length});
  const Axis r = made.axis(rows.count), k = made.axis(rows.length), l = made.axis(rows.length);
  const Axis s = made.axis(rows.count), t = made.axis(rows.count), j = made.axis(rows.length);
  const Buffer most = made.reduce("m", Axes{r}, Reducer::Max, Axes{k}, x(r, k));
  const Buffer sum = made.reduce("s", Axes{s}, Reducer::Sum, Axes{l}, exponent(x(s, l), most(s)));
  made.write(y, Axes{t, j}, share(exponent(x(t, j), most(t)), sum(t)));
  return std::move(made).finish();
}

te::Formula norm(const Rows& rows, bool weighted) {
  Builder made("norm");
  const Buffer x = made.input(0, "x", DType::F32, {rows.count, rows.length});
  const Buffer y = made.output(0, "y", DType::F32, {rows.count, rows.length});
  const Axis r = made.axis(rows.count), k = made.axis(rows.length), l = made.axis(rows.length);
  const Axis s = made.axis(rows.count), t = made.axis(rows.count), j = made.axis(rows.length);
  const double share = 1.0 / static_cast<double>(rows.length);
  auto scaled = [&](const Expr& sum) { return sum * share; };
  const Buffer mean = made.reduce("m", Axes{r}, Reducer::Sum, Axes{k}, x(r, k), scaled);
  const Expr apart = x(s, l) - mean(s);
  const Buffer variance = made.reduce("v", Axes{s}, Reducer::Sum, Axes{l}, apart * apart, scaled);
  Expr result = (x(t, j) - mean(t)) / sqrt(variance(t) + 0.5);
  if (weighted) result = result * made.input(1, "w", DType::F32, {rows.length})(j);
  made.write(y, Axes{t, j}, result);
  return std::move(made).finish();
}

std::vector<float> softmax_of(const std::vector<float>& x, std::size_t length) {
  std::vector<float> made(x.size());
  for (std::size_t first = 0; first < x.size(); first += length) {
    double most = -static_cast<double>(kInfinity), sum = 0;
    for (std::size_t k = 0; k < length; ++k) {
      const double value = static_cast<double>(x[first + k]);
      most = std::isnan(value) || value > most ? value : most;
    }
    for (std::size_t k = 0; k < length; ++k) sum += std::exp(static_cast<double>(x[first + k]) - most);
    for (std::size_t k = 0; k < length; ++k)
      made[first + k] = static_cast<float>(std::exp(static_cast<double>(x[first + k]) - most) / sum);
  }
  return made;
}

std::vector<float> norm_of(const std::vector<float>& x, std::size_t length) {
  std::vector<float> made(x.size());
  for (std::size_t first = 0; first < x.size(); first += length) {
    double mean = 0, variance = 0;
    for (std::size_t k = 0; k < length; ++k) mean += static_cast<double>(x[first + k]);
    mean /= static_cast<double>(length);
    for (std::size_t k = 0; k < length; ++k)
      variance += std::pow(static_cast<double>(x[first + k]) - mean, 2) / static_cast<double>(length);
    for (std::size_t k = 0; k < length; ++k)
      made[first + k] =
          static_cast<float>((static_cast<double>(x[first + k]) - mean) / std::sqrt(variance + 0.5));
  }
  return made;
}

std::vector<float> numbers(const Rows& rows) {
  std::vector<float> made(static_cast<std::size_t>(rows.count * rows.length));
  std::uint32_t state = 17;
  for (float& value : made) {
    state = state * 1664525U + 1013904223U;
    value =
        static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 21);
  }
  return made;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), std::isnan(expected[i])) << "element " << i;
    if (std::isnan(got[i])) continue;
    ASSERT_NEAR(got[i], expected[i], 1e-5) << "element " << i;
  }
}

// On a machine with so little cache that everything goes past it.
Result<kir::Kernel> lowered(const te::Formula& formula, const char* target_name) {
  Target target = **find_target(target_name);
  target.last_level_bytes = 64;
  XYNTRA_TRY(LoweredKernel made,
             lower(formula, Schedule{ScheduleKind::Row, Exactness::Reassociating, {}}, target, {}, "k"));
  return std::move(made.kernel);
}

std::string kernel_text(const te::Formula& formula, const char* target_name) {
  auto kernel = lowered(formula, target_name);
  return kernel ? kir::to_string(*kernel) : kernel.error().message;
}

// The simulator looks at every access.
std::vector<float> simulated(const te::Formula& formula, const char* target_name, const std::vector<float>& x,
                             const std::string& form, const std::vector<float>& weights = {}) {
  auto kernel = lowered(formula, target_name);
  EXPECT_TRUE(kernel.has_value()) << kernel.error().message;
  for (const char* one : {kInFlight, kTogether})
    EXPECT_EQ(kir::to_string(*kernel).find(one) != std::string::npos, one == form) << one;
  kir::Arguments arguments;
  arguments.add(x);
  if (!weights.empty()) arguments.add(weights);
  arguments.add(std::vector<float>(x.size()));
  EXPECT_EQ(kir::run(*kernel, arguments), "");
  return arguments.get<float>(weights.empty() ? 1 : 2);
}

TEST(RowsInFlight, SoftmaxIsRight) {
  for (const Rows& rows : kCases) {
    SCOPED_TRACE(rows.length);
    const auto length = static_cast<std::size_t>(rows.length);
    std::vector<float> x = numbers(rows);
    // Rows with something that is no number, with a mask, with masks alone, with the lowest numbers alone, with infinity.
    x[3 * length + 5] = std::numeric_limits<float>::quiet_NaN();
    x[4 * length + 1] = -kInfinity;
    for (std::size_t k = 0; k < length; ++k) x[6 * length + k] = -kInfinity;
    for (std::size_t k = 0; k < length; ++k) x[7 * length + k] = std::numeric_limits<float>::lowest();
    x[9 * length] = kInfinity;
    x[10 * length + 2] = std::numeric_limits<float>::max();
    for (const char* target : {"avx2", "avx512", "neon"}) {
      SCOPED_TRACE(target);
      expect_near(simulated(softmax(rows), target, x, kInFlight), softmax_of(x, length));
    }
  }
}

// Rows whose maximum is guessed from their beginning: near, far, without end, no number, and guesses that are none.
TEST(RowsInFlight, MaximaThatAreGuessedAreMadeGood) {
  const Rows rows{140, 517};
  const auto length = static_cast<std::size_t>(rows.length);
  std::vector<float> x = numbers(rows);
  auto late = [&](std::size_t row, float value) { x[row * length + length - 30] = value; };
  late(1, 5.5F);
  late(2, 7.5F);
  late(3, 8.5F);
  late(4, 1000.0F);
  late(5, std::numeric_limits<float>::max());
  late(6, kInfinity);
  late(7, std::numeric_limits<float>::quiet_NaN());
  x[8 * length + 516] = 200.0F;  // among the elements that fill no vector
  x[9 * length + 511] = 200.0F;
  for (std::size_t k = 0; k < 300; ++k) x[10 * length + k] = -kInfinity;
  for (std::size_t k = 0; k < length; ++k) x[11 * length + k] = -kInfinity;
  for (std::size_t k = 0; k < 300; ++k) x[12 * length + k] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t k = 0; k < 300; ++k) x[32 * length + k] = -3000.0F;  // the last one of a work item
  for (std::size_t k = 0; k < 300; ++k) x[139 * length + k] = -3000.0F;  // and one that fills none
  const std::vector<float> expected = softmax_of(x, length);
  for (const char* target : {"avx2", "avx512", "neon"}) {
    SCOPED_TRACE(target);
    EXPECT_NE(kernel_text(softmax(rows), target).find(kGuessed), std::string::npos);
    const std::vector<float> got = simulated(softmax(rows), target, x, kInFlight);
    expect_near(got, expected);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!std::isnan(expected[i]) && expected[i] > 1e-4F) {
        ASSERT_LT(std::abs(got[i] / expected[i] - 1), 1e-6F) << "element " << i;
      }
    }
  }
}

bool guesses(const te::Formula& formula) {
  return kernel_text(formula, "avx512").find(kGuessed) != std::string::npos;
}

// What depends on the maximum itself keeps it. So do rows too short to guess from.
TEST(RowsInFlight, MaximaThatResultsAreMadeOfAreNotGuessed) {
  const Exponent plain = [](const Expr& x, const Expr& most) { return exp(x - most); };
  EXPECT_TRUE(guesses(softmax({140, 517})));
  EXPECT_FALSE(
      guesses(softmax({140, 517}, plain, [](const Expr& e, const Expr& sum) { return e / sum + e; })));
  EXPECT_FALSE(guesses(softmax({132, 128})));
}

// Exponents that are made steeper, or of other elements than the maximum is of, may be far larger than the maximum's lead.
TEST(RowsInFlight, MaximaThatBoundNoExponentAreNotGuessed) {
  const Exponent others[] = {[](const Expr& x, const Expr& most) { return exp((x - most) * 100.0); },
                             [](const Expr& x, const Expr& most) { return exp2((x - most) * 100.0); },
                             [](const Expr& x, const Expr& most) { return exp(x * 2.0 - most); }};
  for (const Exponent& exponent : others) EXPECT_FALSE(guesses(softmax({140, 517}, exponent)));
}

// Their elements are read three times, and would evict each other from L1.
TEST(RowsInFlight, NormsGoRowByRow) {
  for (const Rows& rows : kCases) {
    SCOPED_TRACE(rows.length);
    const std::vector<float> x = numbers(rows);
    for (const char* target : {"avx2", "avx512", "neon"}) {
      SCOPED_TRACE(target);
      expect_near(simulated(norm(rows, false), target, x, ""),
                  norm_of(x, static_cast<std::size_t>(rows.length)));
    }
  }
}

// Weights that take much of L1 come once for some rows. 2100 elements fill no round, 19 rows no group.
TEST(RowsInFlight, NormsWithManyWeightsAreWrittenTogether) {
  for (const Rows& rows : {Rows{19, 2100}, Rows{16, 2560}}) {
    SCOPED_TRACE(rows.length);
    const auto length = static_cast<std::size_t>(rows.length);
    const std::vector<float> x = numbers(rows), weights(x.begin(), x.begin() + rows.length);
    std::vector<float> expected = norm_of(x, length);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= weights[i % length];
    for (const char* target : {"avx2", "avx512", "neon"}) {
      SCOPED_TRACE(target);
      expect_near(simulated(norm(rows, true), target, x, kTogether, weights), expected);
    }
  }
}

}  // namespace
}  // namespace xyntra
