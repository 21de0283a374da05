#include "types/dtype.h"

#include <gtest/gtest.h>

#include <set>

#include "support/result.h"

namespace xyntra {
namespace {

TEST(DType, NamesAndOnnxCodesAreUniqueAndInvertible) {
  std::set<int> codes;
  for (DType dtype : all_dtypes()) {
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
    EXPECT_EQ(dtype_of_onnx_code(onnx_code_of(dtype)), dtype);
    EXPECT_TRUE(codes.insert(onnx_code_of(dtype)).second);
  }
  EXPECT_EQ(all_dtypes().size(), 23u);
  EXPECT_FALSE(dtype_named("F32").has_value());
  EXPECT_FALSE(dtype_of_onnx_code(0).has_value());
  EXPECT_EQ(dtype_of_onnx_code(8), DType::String);  // no number: all_dtypes() does not have it
  EXPECT_FALSE(number_dtype_named("string").has_value());
}

TEST(DType, RangesOfIntegers) {
  EXPECT_EQ(lowest_integer(DType::I64), INT64_MIN);
  EXPECT_EQ(highest_integer(DType::I64), static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(highest_integer(DType::U64), UINT64_MAX);
  EXPECT_EQ(lowest_integer(DType::I8), -128);
  EXPECT_EQ(highest_integer(DType::I8), 127u);
  EXPECT_EQ(lowest_integer(DType::I4), -8);
  EXPECT_EQ(highest_integer(DType::I4), 7u);
  EXPECT_EQ(lowest_integer(DType::I2), -2);
  EXPECT_EQ(highest_integer(DType::U2), 3u);
  EXPECT_EQ(lowest_integer(DType::U16), 0);
  EXPECT_EQ(highest_integer(DType::Bool), 1u);
  EXPECT_THROW(lowest_integer(DType::F32), InternalError);
}

TEST(DType, NarrowFloatsComputeInF32) {
  EXPECT_EQ(compute_type(DType::BF16), DType::F32);
  EXPECT_EQ(compute_type(DType::F4E2M1), DType::F32);
  EXPECT_EQ(compute_type(DType::F64), DType::F64);
  EXPECT_EQ(compute_type(DType::I8), DType::I8);
}

}  // namespace
}  // namespace xyntra
