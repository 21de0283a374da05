// Windows over feature maps with blocked channels, by register tiles: strided rows, sums in passes, padding.
#include <gtest/gtest.h>

#include <cmath>
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

constexpr std::int64_t kBlock = 16;

// y[o, p, q, l] = sum(c, u, v, b) x[c, stride p + u - padding, stride q + v - padding, b] * w[o, c, u, v, b, l]
struct Window {
  std::int64_t height, width, channels, filters;  // of the feature map, in blocks
  std::int64_t size, stride, padding;
  std::int64_t down() const { return (height + 2 * padding - size) / stride + 1; }
  std::int64_t across() const { return (width + 2 * padding - size) / stride + 1; }
};

te::Formula formula_of(const Window& window) {
  Builder made("window");
  const Buffer x = made.input(0, "x", DType::F32, {window.channels, window.height, window.width, kBlock});
  const Buffer w = made.input(1, "w", DType::F32,
                              {window.filters, window.channels, window.size, window.size, kBlock, kBlock});
  const Buffer y = made.output(0, "y", DType::F32, {window.filters, window.down(), window.across(), kBlock});
  const Axis o = made.axis(window.filters), p = made.axis(window.down()), q = made.axis(window.across());
  const Axis l = made.axis(kBlock), c = made.axis(window.channels), b = made.axis(kBlock);
  const Axis u = made.axis(window.size), v = made.axis(window.size);
  auto along = [&](const Axis& tap, const Axis& offset) {
    const Expr first = tap * Expr::index(window.stride);
    return window.size == 1 ? first : first + offset - Expr::index(window.padding);
  };
  const te::Index at{c, along(p, u), along(q, v), b};
  const Expr element = window.padding > 0 ? x.load_or(Expr::number(DType::F32, 0), at) : x(at);
  const te::Index weight{o, c, u, v, b, l};
  made.write_reduced(y, Axes{o, p, q, l}, Reducer::Sum, Axes{c, u, v, b}, element * w(weight));
  return std::move(made).finish();
}

// Small whole numbers: sums are exact, whatever their order.
std::vector<float> numbers(std::int64_t count, std::uint32_t state) {
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& value : made) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 24) % 7 - 3);
  }
  return made;
}

struct Operands {
  std::vector<float> x, w;
};

Operands operands_of(const Window& window) {
  return {numbers(window.channels * window.height * window.width * kBlock, 5),
          numbers(window.filters * window.channels * window.size * window.size * kBlock * kBlock, 9)};
}

std::vector<float> expected(const Window& window, const Operands& operands) {
  std::vector<float> made;
  auto at = [](const std::vector<float>& list, std::int64_t place) {
    return list[static_cast<std::size_t>(place)];
  };
  for (std::int64_t o = 0; o < window.filters; ++o) {
    for (std::int64_t place = 0; place < window.down() * window.across() * kBlock; ++place) {
      const std::int64_t p = place / kBlock / window.across(), q = place / kBlock % window.across();
      float sum = 0;
      for (std::int64_t c = 0; c < window.channels; ++c) {
        for (std::int64_t offset = 0; offset < window.size * window.size; ++offset) {
          const std::int64_t row = p * window.stride + offset / window.size - window.padding,
                             column = q * window.stride + offset % window.size - window.padding;
          if (row < 0 || row >= window.height || column < 0 || column >= window.width) continue;
          for (std::int64_t b = 0; b < kBlock; ++b) {
            const std::int64_t weight = ((o * window.channels + c) * window.size * window.size + offset);
            sum += at(operands.x, ((c * window.height + row) * window.width + column) * kBlock + b) *
                   at(operands.w, (weight * kBlock + b) * kBlock + place % kBlock);
          }
        }
      }
      made.push_back(sum);
    }
  }
  return made;
}

kir::Kernel kernel_of(const Window& window, const char* target, std::vector<Knob> more = {}) {
  Schedule schedule{ScheduleKind::Window, Exactness::Reassociating, std::move(more)};
  schedule.knobs.push_back({"tile_columns", 32});
  schedule.knobs.push_back({"tile_rows", 14});
  auto kernel = lower(formula_of(window), schedule, **find_target(target), {}, "k");
  EXPECT_TRUE(kernel.has_value()) << kernel.error().message;
  return kernel->kernel;
}

void expect_right(const Window& window, const kir::Kernel& kernel) {
  const Operands operands = operands_of(window);
  const std::vector<float> wanted = expected(window, operands);
  kir::Arguments arguments;
  arguments.add(operands.x).add(operands.w).add(std::vector<float>(wanted.size()));
  EXPECT_EQ(kir::run(kernel, arguments), "");
  EXPECT_EQ(arguments.get<float>(2), wanted);
}

bool has(const kir::Kernel& kernel, const char* text) {
  return kir::to_string(kernel).find(text) != std::string::npos;
}

TEST(WindowTiles, StridedRowsArePackedFirst) {
  // Rows that fill no tile, and that do: of 49 there are three tiles of 13 and one of 10.
  for (const Window& window : {Window{14, 14, 2, 16, 1, 2, 0}, Window{28, 28, 1, 16, 1, 2, 0}}) {
    SCOPED_TRACE(window.height);
    for (const char* target : {"avx512", "avx2", "neon"}) {
      SCOPED_TRACE(target);
      const kir::Kernel kernel = kernel_of(window, target);
      EXPECT_TRUE(has(kernel, "workspace"));
      expect_right(window, kernel);
    }
  }
}

TEST(WindowTiles, LongSumsAreMadeInPassesOverAllRows) {
  // 512 products, in two passes over 14 tiles; over three and a lower one; 1024, in four.
  for (const Window& window : {Window{14, 14, 32, 2, 1, 1, 0}, Window{7, 7, 32, 2, 1, 1, 0},
                               Window{7, 7, 64, 2, 1, 1, 0}, Window{14, 14, 32, 2, 1, 2, 0}}) {
    SCOPED_TRACE(window.channels);
    const kir::Kernel kernel = kernel_of(window, "avx512");
    EXPECT_TRUE(has(kernel, "for t < ")) << kir::to_string(kernel);
    expect_right(window, kernel);
  }
}

// Feature maps of one tile, of several, of some and a lower one; windows with a stride, wide, and wider than a tile.
constexpr Window kWithPadding[] = {
    {7, 7, 2, 2, 3, 1, 1},  {14, 14, 2, 4, 3, 1, 1}, {5, 28, 1, 2, 3, 1, 1}, {4, 56, 1, 2, 3, 1, 1},
    {4, 31, 1, 2, 3, 1, 1}, {14, 14, 2, 2, 3, 2, 1}, {9, 29, 1, 2, 3, 2, 1}, {9, 9, 1, 2, 7, 2, 3},
    {3, 3, 32, 2, 3, 1, 1}, {16, 16, 1, 2, 7, 1, 3},
};

TEST(WindowTiles, PaddingIsLeftOutWhereWeightsAreFinite) {
  for (const Window& window : kWithPadding) {
    SCOPED_TRACE(std::to_string(window.height) + " x " + std::to_string(window.width) + ", " +
                 std::to_string(window.size));
    for (const char* target : {"avx512", "avx2", "neon"}) {
      SCOPED_TRACE(target);
      const kir::Kernel kernel = kernel_of(window, target, {{"skip_padding", 1}});
      EXPECT_FALSE(has(kernel, "workspace")) << kir::to_string(kernel);
      expect_right(window, kernel);
    }
  }
}

TEST(WindowTiles, LinesAreCopiedWithTheirPadding) {
  for (const Window& window : {Window{1, 9, 1, 2, 3, 1, 1}, Window{10, 1, 1, 2, 3, 1, 1}})
    expect_right(window, kernel_of(window, "avx512", {{"skip_padding", 1}}));
}

TEST(WindowTiles, PaddingIsCopiedWhereWeightsMayBeInfinite) {
  const Window window{7, 7, 1, 2, 3, 1, 1};
  const kir::Kernel kernel = kernel_of(window, "avx512");
  EXPECT_TRUE(has(kernel, "workspace"));
  Operands operands = operands_of(window);
  operands.w[0] =
      std::numeric_limits<float>::infinity();  // of the first offset, which the first pixel has outside
  kir::Arguments arguments;
  arguments.add(operands.x).add(operands.w).add(std::vector<float>(2 * 49 * kBlock));
  EXPECT_EQ(kir::run(kernel, arguments), "");
  EXPECT_TRUE(std::isnan(arguments.get<float>(2)[0]));
}

}  // namespace
}  // namespace xyntra
