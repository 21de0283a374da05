#include "lower/cpu/gather_steps.h"

#include <gtest/gtest.h>

#include "te/index/merge.h"

namespace xyntra {
namespace {

using te::Expr;

const Target& avx512() { return *find_target("avx512").value(); }

// y[b, n, p] = sum(k) exp(x[b, k, 2 p]) * w[n / 32, k, n % 32]: the exponentials of all x first.
te::Formula strided_rows() {
  te::Builder builder("rows");
  const te::Buffer x = builder.input(0, "x", DType::F32, {2, 3, 49});
  const te::Buffer w = builder.input(1, "w", DType::F32, {13, 3, 32});
  const te::Buffer y = builder.output(0, "y", DType::F32, {2, 405, 25});
  const te::Axes places = builder.axes({2, 3, 49});
  const te::Buffer powers = builder.map("powers", places, te::exp(x(places)));
  const te::Axes axes = builder.axes({2, 405, 25}), sum = builder.axes({3});
  const Expr left = powers(axes[0], sum[0], Expr(axes[2]) * 2);
  const Expr right = w(te::floor_div(axes[1], Expr::index(32)), sum[0], te::mod(axes[1], Expr::index(32)));
  builder.write_reduced(y, axes, te::Reducer::Sum, sum, left * right);
  te::Formula formula = std::move(builder).finish();
  te::merge_axes(formula);
  return formula;
}

// What is gathered from has become one line, since the stage that fills it can walk along all of it.
TEST(GatherSteps, ReadAValueWhoseDimensionsBecameOne) {
  const te::Formula gathered = gather_steps(strided_rows(), avx512(), {});
  ASSERT_EQ(gathered.stages.size(), 3U) << te::to_string(gathered);
  const Status sound = te::verify(gathered);
  EXPECT_TRUE(sound) << te::to_string(gathered);
  EXPECT_EQ(gathered.buffer(gathered.stages[0].target).shape.size(), 1U);
}

}  // namespace
}  // namespace xyntra
