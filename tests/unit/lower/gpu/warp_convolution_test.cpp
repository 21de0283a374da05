// Convolutions on the matrix units of warps: pixels of every kind of window, in chunks of channels where these come last.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "types/float_formats.h"
#include "unit/kir/sim/sim_testing.h"

namespace xyntra {
namespace {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Builder;
using te::Expr;
using te::Reducer;

struct Convolution {
  std::int64_t height, width, channels, filters;
  std::int64_t window = 3, stride = 1, dilation = 1;
  std::int64_t above = 1, left = 1, below = 1, right = 1;  // padding
  std::int64_t batch = 1;
  bool channels_last = true;
  DType dtype = DType::BF16;

  std::int64_t rows() const { return (height + above + below - dilation * (window - 1) - 1) / stride + 1; }
  std::int64_t columns() const { return (width + left + right - dilation * (window - 1) - 1) / stride + 1; }
};

// y[n, o, h, w] = max(sum(c, i, j) x[n, c, h * s + i * d - p, …] * k[o, c, i, j] + b[o], 0), with zeros around x
te::Formula formula_of(const Convolution& of) {
  Builder made("convolution");
  const bool last = of.channels_last;
  const Buffer x = made.input(0, "x", of.dtype,
                              last ? Shape{of.batch, of.height, of.width, of.channels}
                                   : Shape{of.batch, of.channels, of.height, of.width});
  const Buffer k = made.input(1, "k", of.dtype,
                              last ? Shape{of.window, of.window, of.channels, of.filters}
                                   : Shape{of.filters, of.channels, of.window, of.window});
  const Buffer bias = made.input(2, "b", DType::F32, {of.filters});
  const Buffer y = made.output(0, "y", DType::F32,
                               last ? Shape{of.batch, of.rows(), of.columns(), of.filters}
                                    : Shape{of.batch, of.filters, of.rows(), of.columns()});
  const Axis n = made.axis(of.batch), o = made.axis(of.filters), h = made.axis(of.rows()),
             w = made.axis(of.columns());
  const Axis c = made.axis(of.channels), i = made.axis(of.window), j = made.axis(of.window);
  const Expr row = h * of.stride + i * of.dilation - of.above,
             column = w * of.stride + j * of.dilation - of.left;
  const Expr pixel = te::cast(DType::F32, last ? x(n, row, column, c) : x(n, c, row, column));
  const Expr zero = Expr::number(DType::F32, 0);
  const Expr padded = te::select((row >= 0) & (row < of.height),
                                 te::select((column >= 0) & (column < of.width), pixel, zero), zero);
  const Expr weight = te::cast(DType::F32, last ? k(i, j, c, o) : k(o, c, i, j));
  made.write_reduced(y, last ? Axes{n, h, w, o} : Axes{n, o, h, w}, Reducer::Sum, Axes{c, i, j},
                     padded * weight, [&](const Expr& sum) { return te::max(sum + bias(o), zero); });
  return std::move(made).finish();
}

LoweredKernel kernel_of(const Convolution& of, const std::vector<std::string>& forms = {}) {
  const Schedule schedule{ScheduleKind::Window, Exactness::Reassociating, {}, forms};
  auto kernel = lower(formula_of(of), schedule, **find_target("ampere"), {}, "k");
  EXPECT_TRUE(kernel.has_value()) << kernel.error().message;
  return *kernel;
}

std::vector<float> results_of(const Convolution& of, const std::vector<float>& x, const std::vector<float>& k,
                              const std::vector<float>& bias) {
  const bool last = of.channels_last;
  auto at = [](const std::vector<float>& list, std::int64_t place) {
    return list[static_cast<std::size_t>(place)];
  };
  auto sum_at = [&](std::int64_t n, std::int64_t o, std::int64_t h, std::int64_t w) {
    float sum = 0;
    for (std::int64_t c = 0; c < of.channels; ++c) {
      for (std::int64_t i = 0; i < of.window; ++i) {
        for (std::int64_t j = 0; j < of.window; ++j) {
          const std::int64_t row = h * of.stride + i * of.dilation - of.above,
                             column = w * of.stride + j * of.dilation - of.left;
          if (row < 0 || row >= of.height || column < 0 || column >= of.width) continue;
          const std::int64_t pixel = last ? ((n * of.height + row) * of.width + column) * of.channels + c
                                          : ((n * of.channels + c) * of.height + row) * of.width + column;
          const std::int64_t weight = last ? ((i * of.window + j) * of.channels + c) * of.filters + o
                                           : ((o * of.channels + c) * of.window + i) * of.window + j;
          sum += at(x, pixel) * at(k, weight);
        }
      }
    }
    return std::max(sum + at(bias, o), 0.0F);
  };
  std::vector<float> results;
  const std::int64_t pixels = of.rows() * of.columns();
  for (std::int64_t place = 0; place < of.batch * pixels * of.filters; ++place) {
    const std::int64_t n = place / pixels / of.filters;
    const std::int64_t o = last ? place % of.filters : place / pixels % of.filters;
    const std::int64_t pixel = last ? place / of.filters % pixels : place % pixels;
    results.push_back(sum_at(n, o, pixel / of.columns(), pixel % of.columns()));
  }
  return results;
}

void expect_right(const Convolution& of, const LoweredKernel& made) {
  ASSERT_EQ(made.forms.size(), 1U);
  EXPECT_TRUE(made.forms[0].starts_with("warp_tiles(")) << made.forms[0];
  const std::vector<float> x = kir::small_numbers(of.batch * of.height * of.width * of.channels, 5),
                           k = kir::small_numbers(of.window * of.window * of.channels * of.filters, 9),
                           bias = kir::small_numbers(of.filters, 2);
  const std::vector<float> wanted = results_of(of, x, k, bias);
  kir::Arguments arguments;
  arguments.add(kir::halves(x, of.dtype)).add(kir::halves(k, of.dtype)).add(bias);
  arguments.add(std::vector<float>(wanted.size()));
  EXPECT_EQ(kir::run(made.kernel, arguments), "");
  EXPECT_EQ(arguments.get<float>(3), wanted);
}

// Nothing passes through registers.
bool is_copied(const LoweredKernel& made) {
  const std::string text = kir::to_string(made.kernel);
  return text.find("async_copy") != std::string::npos && text.find("bf16[16]") == std::string::npos &&
         text.find("lv") == std::string::npos && text.find("rv") == std::string::npos;
}

TEST(WarpConvolution, ChunksOfChannels) {
  for (const Convolution& of :
       {Convolution{14, 14, 64, 64}, Convolution{13, 17, 24, 40}, Convolution{9, 11, 8, 16},
        Convolution{8, 8, 72, 48, 3, 1, 1, 1, 1, 1, 1, 1, true, DType::F16}}) {
    SCOPED_TRACE(std::to_string(of.channels) + " channels");
    const LoweredKernel made = kernel_of(of);
    EXPECT_TRUE(is_copied(made)) << kir::to_string(made.kernel).substr(0, 600);
    expect_right(of, made);
  }
}

TEST(WarpConvolution, WindowsOfEveryKind) {
  for (const Convolution& of :
       {Convolution{15, 13, 32, 40, 3, 2},  // stride
        Convolution{13, 17, 16, 48, 3, 1, 2, 2, 2, 2, 2},  // dilation
        Convolution{13, 17, 16, 48, 3, 1, 1, 0, 1, 2, 1},  // asymmetric padding
        Convolution{12, 12, 16, 48, 5, 1, 1, 2, 2, 2, 2}, Convolution{12, 12, 16, 48, 2, 2, 1, 0, 0, 0, 0},
        Convolution{13, 17, 40, 24, 1, 1, 1, 0, 0, 0, 0}, Convolution{14, 14, 40, 64, 1, 2, 1, 0, 0, 0, 0},
        Convolution{7, 9, 16, 32, 3, 1, 1, 1, 1, 1, 1, 3}}) {
    SCOPED_TRACE(std::to_string(of.window) + " wide, " + std::to_string(of.height) + " x " +
                 std::to_string(of.width) + ", stride " + std::to_string(of.stride));
    const LoweredKernel made = kernel_of(of);
    EXPECT_TRUE(is_copied(made));
    expect_right(of, made);
  }
}

// A model's first convolution, and channels that are not contiguous: elements one by one.
TEST(WarpConvolution, ElementsThroughRegisters) {
  for (const Convolution& of :
       {Convolution{20, 20, 3, 32, 7, 2, 1, 3, 3, 3, 3, 1, false},
        Convolution{11, 13, 12, 40, 3, 1, 1, 1, 1, 1, 1, 2, false}, Convolution{11, 13, 12, 40}}) {
    SCOPED_TRACE(std::to_string(of.channels) + " channels");
    expect_right(of, kernel_of(of));
  }
}

TEST(WarpConvolution, SmallFeatureMapsSplitTheReduction) {
  const Convolution of{7, 7, 512, 512};
  EXPECT_NE(kir::to_string(kernel_of(of).kernel).find("workspace"), std::string::npos);
  const Convolution small{7, 7, 64, 32};
  expect_right(small,
               kernel_of(small, {"warp_tiles(early=0,group_rows=1,splits=2,stages=3,tile_columns=32,tile_"
                                 "depth=32,tile_rows=16,warps_across=2,warps_deep=1,warps_down=1)"}));
}

// A patch of words becomes one: rows are few and found by two digits, the sum is long and shared out.
TEST(WarpConvolution, PatchesOfWords) {
  constexpr std::int64_t kSide = 14, kPatch = 2, kChannels = 64, kFilters = 40, kPatches = kSide / kPatch;
  Builder made("patches");
  const Buffer x = made.input(0, "x", DType::BF16, {kSide * kSide, kChannels});
  const Buffer k = made.input(1, "k", DType::BF16, {kPatch, kPatch, kChannels, kFilters});
  const Buffer y = made.output(0, "y", DType::F32, {kPatches, kPatches, kFilters});
  const Axis h = made.axis(kPatches), w = made.axis(kPatches), o = made.axis(kFilters);
  const Axis c = made.axis(kChannels), i = made.axis(kPatch), j = made.axis(kPatch);
  const Expr word = (h * kPatch + i) * kSide + w * kPatch + j;
  made.write_reduced(y, Axes{h, w, o}, Reducer::Sum, Axes{c, i, j},
                     te::cast(DType::F32, x(word, c)) * te::cast(DType::F32, k(i, j, c, o)));
  const Schedule schedule{ScheduleKind::Contraction, Exactness::Reassociating, {}, {}};
  const auto kernel = lower(std::move(made).finish(), schedule, **find_target("ampere"), {}, "k");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  EXPECT_TRUE(kernel->forms[0].starts_with("warp_tiles(")) << kernel->forms[0];
  EXPECT_EQ(kernel->forms[0].find("warps_deep=1,"), std::string::npos) << kernel->forms[0];
  EXPECT_TRUE(is_copied(*kernel)) << kir::to_string(kernel->kernel).substr(0, 600);
  const std::vector<float> words = kir::small_numbers(kSide * kSide * kChannels, 5),
                           weights = kir::small_numbers(kPatch * kPatch * kChannels * kFilters, 9);
  std::vector<float> wanted;
  for (std::int64_t place = 0; place < kPatches * kPatches * kFilters; ++place) {
    const std::int64_t filter = place % kFilters, column = place / kFilters % kPatches,
                       row = place / kFilters / kPatches;
    float sum = 0;
    for (std::int64_t term = 0; term < kPatch * kPatch * kChannels; ++term) {
      const std::int64_t channel = term % kChannels, offset = term / kChannels;
      const std::int64_t at = (row * kPatch + offset / kPatch) * kSide + column * kPatch + offset % kPatch;
      sum += words[static_cast<std::size_t>(at * kChannels + channel)] *
             weights[static_cast<std::size_t>(term * kFilters + filter)];
    }
    wanted.push_back(sum);
  }
  kir::Arguments arguments;
  arguments.add(kir::halves(words, DType::BF16)).add(kir::halves(weights, DType::BF16));
  arguments.add(std::vector<float>(wanted.size()));
  EXPECT_EQ(kir::run(kernel->kernel, arguments), "");
  EXPECT_EQ(arguments.get<float>(2), wanted);
}

}  // namespace
}  // namespace xyntra
