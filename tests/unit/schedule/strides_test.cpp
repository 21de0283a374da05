#include "schedule/layout/strides.h"

#include <gtest/gtest.h>

#include "schedule/layout/layouts.h"
#include "te/index/layout.h"

namespace xyntra {
namespace {

using te::Builder;
using te::Formula;

const Target& avx512() { return *find_target("avx512").value(); }

std::int64_t cost(const Formula& formula, const Target& target = avx512(),
                  ScheduleKind schedule = ScheduleKind::Pointwise) {
  return strided_ns(formula, {schedule, Exactness::Exact, {}}, target, {});
}

// y[i, j] = x[i, j], or x[j, i].
Formula copy(std::int64_t rows, std::int64_t columns, bool transposed) {
  Builder builder("copy");
  te::Buffer x = builder.input(0, "x", DType::F32, transposed ? Shape{columns, rows} : Shape{rows, columns});
  te::Buffer y = builder.output(0, "y", DType::F32, {rows, columns});
  te::Axes axes = builder.axes({rows, columns});
  builder.write(y, axes, transposed ? x(axes[1], axes[0]) : x(axes));
  return std::move(builder).finish();
}

TEST(Strides, ACopyInOrderCostsNothing) { EXPECT_EQ(cost(copy(64, 64, false)), 0); }

TEST(Strides, ATransposedCopyHasOneStridedSide) {
  EXPECT_EQ(cost(copy(64, 128, true)), avx512().strided_ns(64 * 128 * 4));
}

TEST(Strides, WhatGathersItsOperandsFirstCostsNothing) {
  EXPECT_EQ(cost(copy(64, 128, true), avx512(), ScheduleKind::Attention), 0);
  EXPECT_EQ(cost(copy(64, 128, true), avx512(), ScheduleKind::Tiles), 0);
}

TEST(Strides, AVectorIsTransposedForFree) { EXPECT_EQ(cost(copy(1, 4096, true)), 0); }

// y[m, n] = sum(k) a[m, k] * b, with b[k, n], b[n, k] or b[k, n, 4] of which one is taken.
enum class Lies { AlongColumns, AlongTheSum, AlongNeither };
Formula product(std::int64_t rows, Lies lies) {
  constexpr std::int64_t kSide = 256;
  Builder builder("product");
  te::Buffer a = builder.input(0, "a", DType::F32, {rows, kSide});
  te::Buffer b = builder.input(1, "b", DType::F32,
                               lies == Lies::AlongNeither ? Shape{kSide, kSide, 4} : Shape{kSide, kSide});
  te::Buffer y = builder.output(0, "y", DType::F32, {rows, kSide});
  te::Axes axes = builder.axes({rows, kSide}), sum = builder.axes({kSide});
  te::Expr factor = lies == Lies::AlongColumns  ? b(sum[0], axes[1])
                    : lies == Lies::AlongTheSum ? b(axes[1], sum[0])
                                                : b(sum[0], axes[1], te::Expr::index(2));
  builder.write_reduced(y, axes, te::Reducer::Sum, sum, a(axes[0], sum[0]) * factor);
  return std::move(builder).finish();
}

TEST(Strides, AMatmulTakesOperandsAlongItsColumnsOrItsSum) {
  EXPECT_EQ(cost(product(64, Lies::AlongColumns), avx512(), ScheduleKind::Contraction), 0);
  EXPECT_EQ(cost(product(64, Lies::AlongTheSum), avx512(), ScheduleKind::Contraction), 0);
  const Target& webgpu = *find_target("webgpu").value();
  EXPECT_EQ(cost(product(64, Lies::AlongTheSum), webgpu, ScheduleKind::Contraction), 0);
}

TEST(Strides, AnOperandThatLiesAlongNeitherIsReadInStridesForEveryRow) {
  const std::int64_t once = avx512().strided_ns(std::int64_t{256} * 256 * 4);
  EXPECT_GT(cost(product(64, Lies::AlongNeither), avx512(), ScheduleKind::Contraction), 10 * once);
  // Blocks in shared memory are brought once for 128 rows.
  const Target& webgpu = *find_target("webgpu").value();
  const std::int64_t brought = webgpu.strided_ns(std::int64_t{256} * 256 * 4);
  EXPECT_EQ(cost(product(128, Lies::AlongNeither), webgpu, ScheduleKind::Contraction), brought);
  EXPECT_NEAR(static_cast<double>(cost(product(256, Lies::AlongNeither), webgpu, ScheduleKind::Contraction)),
              2.0 * static_cast<double>(brought), 2.0);
}

TEST(Strides, BlockedBesidePlainIsAStrideAndBlockedBesideBlockedIsNone) {
  const Shape image{1, 32, 8, 8};
  const Layout blocked{{0, 1, 0}, {1, 16, 0}, {2, 1, 0}, {3, 1, 0}, {1, 1, 16}};
  EXPECT_EQ(cost(te::relayout(DType::F32, image, {}, {})), 0);
  EXPECT_EQ(cost(te::relayout(DType::F32, image, blocked, blocked)), 0);
  EXPECT_EQ(cost(te::relayout(DType::F32, image, {}, blocked)), avx512().strided_ns(32 * 64 * 4));
  EXPECT_EQ(cost(te::relayout(DType::F32, image, blocked, {})), avx512().strided_ns(32 * 64 * 4));
}

}  // namespace
}  // namespace xyntra
