#include "verify/compare.h"

#include <gtest/gtest.h>

#include <cmath>

namespace xyntra {
namespace {

constexpr Tolerance kOnnx{1e-3, 1e-7};

Tensor floats(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from<float>(DType::F32, {count}, values);
}

TEST(Compare, FloatsWithinATolerance) {
  EXPECT_FALSE(difference(floats({1.0005F, 0.0F}), floats({1.0F, 1e-8F}), kOnnx).has_value());
  EXPECT_EQ(difference(floats({1.0F, 2.0F, 4.0F}), floats({1.0F, 3.0F, 3.0F}), kOnnx),
            "f32[3]: 2 of 3 elements differ, the first at [1]: 2.0, expected 3.0");
}

TEST(Compare, NanAndInfinityOnlyWhereExpected) {
  EXPECT_FALSE(difference(floats({NAN, INFINITY}), floats({NAN, INFINITY}), kOnnx).has_value());
  EXPECT_TRUE(difference(floats({NAN}), floats({1.0F}), kOnnx).has_value());
  EXPECT_TRUE(difference(floats({1.0F}), floats({NAN}), kOnnx).has_value());
  EXPECT_TRUE(difference(floats({1e30F}), floats({INFINITY}), kOnnx).has_value());
  EXPECT_TRUE(difference(floats({-INFINITY}), floats({INFINITY}), kOnnx).has_value());
}

TEST(Compare, IntegersShapesAndDtypesExactly) {
  EXPECT_TRUE(difference(Tensor::scalar_i64(10000), Tensor::scalar_i64(10001), kOnnx).has_value());
  EXPECT_EQ(difference(Tensor::scalar_i64(1), Tensor::scalar_f32(1), kOnnx), "i64[], expected f32[]");
  EXPECT_EQ(difference(floats({1}), Tensor::scalar_f32(1), kOnnx), "f32[1], expected f32[]");
}

TEST(Compare, SequencesAndOptionals) {
  const Datum one = Datum::of(Tensor::scalar_f32(1)), two = Datum::of(Tensor::scalar_f32(2));
  EXPECT_EQ(difference(Datum::sequence({one}), Datum::sequence({one, two}), kOnnx), "1 elements, expected 2");
  EXPECT_EQ(difference(Datum::sequence({one, one}), Datum::sequence({one, two}), kOnnx),
            "element 1: f32[]: 1 of 1 elements differ, the first at []: 1.0, expected 2.0");
  EXPECT_EQ(difference(Datum::optional({}), one, kOnnx), "an optional, expected a tensor");
}

}  // namespace
}  // namespace xyntra
