#include "te/index/merge.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

Dim n() { return Dim::symbol("n"); }

TEST(MergeAxes, NeighboursThatEveryAccessWalksAsOneBecomeOne) {
  Builder builder("relu");
  Buffer x = builder.input(0, "x", DType::F32, {2, n(), 8}),
         y = builder.output(0, "y", DType::F32, {2, n(), 8});
  Axes axes = builder.axes({2, n(), 8});
  builder.write(y, axes, max(x(axes), 0));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  ASSERT_TRUE(verify(formula));
  ASSERT_EQ(formula.stages[0].axes.size(), 1u);
  EXPECT_EQ(formula.variable(formula.stages[0].axes[0]).extent, n() * 16);
  EXPECT_EQ(to_string(formula.buffer(x.id()).shape), to_string(Shape{n() * 16}));
}

// As layouts of blocked channels leave them: results are written in another order than loops are given in.
TEST(MergeAxes, LoopsOfElementWiseStagesFollowTheirResults) {
  Builder builder("relu");
  Buffer x = builder.input(0, "x", DType::F32, {2, 30, 16}),
         y = builder.output(0, "y", DType::F32, {2, 30, 16});
  Axes axes = builder.axes({2, 16, 30});
  builder.write_at(y, axes, {axes[0], axes[2], axes[1]}, max(x(axes[0], axes[2], axes[1]), 0));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  ASSERT_TRUE(verify(formula));
  ASSERT_EQ(formula.stages[0].axes.size(), 1u);
  EXPECT_TRUE(formula.variable(formula.stages[0].axes[0]).extent.is(960));
}

TEST(MergeAxes, AnAxisThatAnotherBufferReadsAloneStays) {
  Builder builder("bias");
  Buffer x = builder.input(0, "x", DType::F32, {4, 6, 8}), b = builder.input(1, "b", DType::F32, {8}),
         y = builder.output(0, "y", DType::F32, {4, 6, 8});
  Axes axes = builder.axes({4, 6, 8});
  builder.write(y, axes, x(axes) + b(axes[2]));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  ASSERT_TRUE(verify(formula));
  ASSERT_EQ(formula.stages[0].axes.size(), 2u);
  EXPECT_TRUE(formula.variable(formula.stages[0].axes[0]).extent.is(24));
  EXPECT_TRUE(formula.variable(formula.stages[0].axes[1]).extent.is(8));
}

// Two rows for each entry of a batch are rows of one product, though a column of two is added to them.
TEST(MergeAxes, ShortRowsOfAProductBecomeOneLoop) {
  for (const bool of_batch : {false, true}) {
    Builder builder("product");
    const Shape few{of_batch ? n() : Dim(2)};
    Buffer x = builder.input(0, "x", DType::F32, {n(), 2, 8}), w = builder.input(1, "w", DType::F32, {8, 5}),
           c = builder.input(2, "c", DType::F32, few), y = builder.output(0, "y", DType::F32, {n(), 2, 5});
    Axes axes = builder.axes({n(), 2, 5}), depth = builder.axes({8});
    builder.write_reduced(y, axes, Reducer::Sum, depth, x(axes[0], axes[1], depth[0]) * w(depth[0], axes[2]),
                          [&](const Expr& sum) { return sum + c(axes[of_batch ? 0 : 1]); });
    Formula formula = std::move(builder).finish();
    merge_axes(formula);
    ASSERT_TRUE(verify(formula));
    ASSERT_EQ(formula.stages[0].axes.size(), 2u);
    EXPECT_EQ(formula.variable(formula.stages[0].axes[0]).extent, n() * 2);
    EXPECT_EQ(to_string(formula.buffer(c.id()).shape), to_string(few));
  }
}

TEST(MergeAxes, LoopsOfAFactorStayApart) {
  Builder builder("batched");
  Buffer x = builder.input(0, "x", DType::F32, {4, 2, 8}), w = builder.input(1, "w", DType::F32, {4, 8, 5}),
         y = builder.output(0, "y", DType::F32, {4, 2, 5});
  Axes axes = builder.axes({4, 2, 5}), depth = builder.axes({8});
  builder.write_reduced(y, axes, Reducer::Sum, depth,
                        x(axes[0], axes[1], depth[0]) * w(axes[0], depth[0], axes[2]));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  ASSERT_TRUE(verify(formula));
  EXPECT_EQ(formula.stages[0].axes.size(), 3u);
}

TEST(MergeAxes, DigitsOfADimensionAreLoopsThatBecomeOne) {
  Builder builder("reshape");
  Buffer x = builder.input(0, "x", DType::F32, {2, 12, 8}),
         y = builder.output(0, "y", DType::F32, {2, 3, 4, 8});
  Axes axes = builder.axes({2, 3, 4, 8});
  builder.write(y, axes, max(x(axes[0], axes[1].expr() * 4 + axes[2].expr(), axes[3]), 0));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  ASSERT_TRUE(verify(formula));
  ASSERT_EQ(formula.stages[0].axes.size(), 1u);
  EXPECT_TRUE(formula.variable(formula.stages[0].axes[0]).extent.is(2 * 3 * 4 * 8));
}

TEST(MergeAxes, DigitsThatAnotherAccessWalksOtherwiseStay) {
  Builder builder("reshape");
  Buffer x = builder.input(0, "x", DType::F32, {12}), y = builder.output(0, "y", DType::F32, {3, 4});
  Axes axes = builder.axes({3, 4});
  builder.write(y, axes, x(axes[0].expr() * 4 + axes[1].expr()) + x(axes[1].expr() * 3 + axes[0].expr()));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  ASSERT_TRUE(verify(formula));
  EXPECT_EQ(formula.stages[0].axes.size(), 2u);
  EXPECT_EQ(formula.buffer(x.id()).shape.size(), 1u);
}

TEST(MergeAxes, ATemporaryIsWrittenByTheLoopsOfItsOwnStage) {
  Builder builder("prologue");
  Buffer x = builder.input(0, "x", DType::F32, {3, 4, 8}), c = builder.input(1, "c", DType::F32, {4}),
         w = builder.input(2, "w", DType::F32, {8}), y = builder.output(0, "y", DType::F32, {3, 4});
  Axes own = builder.axes({3, 4, 8});
  Buffer t = builder.map("t", own, x(own) + c(own[1]));
  Axes rows = builder.axes({3, 4});
  Axis k = builder.axis(8);
  builder.write_reduced(y, rows, Reducer::Sum, {k}, t(rows[0], rows[1], k) * w(k));
  Formula formula = std::move(builder).finish();
  Formula alike = formula;
  merge_axes(alike);
  EXPECT_EQ(alike.stages[1].axes.size(), 2u);
  merge_axes(formula, Temporaries::ByTheirOwnLoops);
  ASSERT_TRUE(verify(formula));
  EXPECT_EQ(formula.stages[0].axes.size(), 3u);
  EXPECT_EQ(formula.stages[1].axes.size(), 1u);
  EXPECT_EQ(to_string(formula.buffer(t.id()).shape), to_string(Shape{12, 8}));
}

TEST(MergeAxes, TransposedAndComparedAxesStay) {
  Builder builder("triangle");
  Buffer x = builder.input(0, "x", DType::F32, {4, 4}), t = builder.input(1, "t", DType::F32, {4, 4}),
         y = builder.output(0, "y", DType::F32, {4, 4});
  Axes axes = builder.axes({4, 4});
  builder.write(y, axes, select(axes[0].expr() < axes[1].expr(), x(axes), t(axes[1], axes[0])));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  EXPECT_EQ(formula.stages[0].axes.size(), 2u);
}

TEST(MergeAxes, StagesThatShareABufferMergeItTogetherOrNotAtAll) {
  Builder builder("softmax");
  Buffer x = builder.input(0, "x", DType::F32, {2, 3, 8}), y = builder.output(0, "y", DType::F32, {2, 3, 8});
  Axes rows = builder.axes({2, 3});
  Axis k = builder.axis(8), j = builder.axis(8);
  Buffer m = builder.reduce("m", rows, Reducer::Max, {k}, x(rows[0], rows[1], k));
  Axes again = builder.axes({2, 3});
  builder.write(y, concat(again, {j}), x(again[0], again[1], j) - m(again));
  Formula formula = std::move(builder).finish();
  merge_axes(formula);
  ASSERT_TRUE(verify(formula));
  EXPECT_EQ(formula.stages[0].axes.size(), 1u);
  EXPECT_EQ(formula.stages[1].axes.size(), 2u);
  EXPECT_EQ(formula.buffer(m.id()).shape.size(), 1u);
}

}  // namespace
}  // namespace xyntra::te
