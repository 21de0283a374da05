#include "types/float_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace xyntra {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// The value of a sign/exponent/mantissa code by arithmetic, without looking at specials: what the formats
// mean.
double value_by_definition(std::uint32_t code, int exponent_bits, int mantissa_bits, int bias) {
  const std::uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const std::uint32_t field = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = (code >> (mantissa_bits + exponent_bits) & 1) != 0;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  const double magnitude =
      field == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, static_cast<int>(field) - bias);
  return negative ? -magnitude : magnitude;
}

TEST(FloatFormats, EveryF16DecodesAsDefinedAndEncodesBack) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    const float value = f16_to_f32(half);
    if ((code & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(value), (code & 0x3ff) != 0);
      EXPECT_EQ(std::signbit(value), code >= 0x8000);
      EXPECT_EQ(f32_to_f16(value), (code & 0x3ff) != 0 ? code | 0x200 : code);
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), value_by_definition(code, 5, 10, 15)) << code;
    ASSERT_EQ(f32_to_f16(value), code);
    ASSERT_EQ(f64_to_f16(value), code);
    ASSERT_EQ(std::signbit(value), code >= 0x8000);
  }
}

TEST(FloatFormats, EveryMidpointOfF16GoesToTheEvenNeighbour) {
  for (std::uint32_t code = 0; code < 0x7bff; ++code) {
    const float low = f16_to_f32(static_cast<std::uint16_t>(code));
    const float high = f16_to_f32(static_cast<std::uint16_t>(code + 1));
    const float middle = (low + high) / 2;  // exact: one more bit than f16 has
    ASSERT_EQ(f32_to_f16(middle), (code & 1) == 0 ? code : code + 1);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), code);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, kInfinity)), code + 1);
    ASSERT_EQ(f32_to_f16(-middle), 0x8000u | ((code & 1) == 0 ? code : code + 1));
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(FloatFormats, DoublesAreRoundedOnce) {
  // Just above the midpoint of 1 and its f16 neighbour, by less than float32 can see: rounding to float32
  // first would land on the midpoint and then on the even 1.
  const double above = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(f64_to_f16(above), 0x3c01);
  EXPECT_EQ(f32_to_f16(static_cast<float>(above)), 0x3c00);
  EXPECT_EQ(f64_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(f64_to_bf16(std::numeric_limits<double>::denorm_min()), 0);
  EXPECT_EQ(f64_to_f16(1e300), 0x7c00);
}

TEST(FloatFormats, BF16IsTheUpperHalfRoundedToEven) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    const float value = bf16_to_f32(half);
    const bool is_nan = (code & 0x7fff) > 0x7f80;
    ASSERT_EQ(std::isnan(value), is_nan);
    ASSERT_EQ(bits(value), code << 16 | (is_nan ? 0x400000u : 0));
    ASSERT_EQ(f32_to_bf16(value), is_nan ? code | 0x40 : code);
    if ((code & 0x7fff) >= 0x7f7f) continue;
    const std::uint32_t middle = code << 16 | 0x8000;
    const std::uint32_t even = (code & 1) == 0 ? code : code + 1;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle)), even);
    ASSERT_EQ(f64_to_bf16(std::bit_cast<float>(middle)), even);
    ASSERT_EQ(f64_to_bf16(std::bit_cast<float>(middle - 1)), code);
    ASSERT_EQ(f64_to_bf16(std::bit_cast<float>(middle + 1)), code + 1);
  }
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  // A NaN whose payload is only in the dropped bits stays NaN.
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
}

struct SmallFormat {
  DType dtype;
  int exponent_bits, mantissa_bits, bias;
};
constexpr SmallFormat kSmallFormats[] = {
    {DType::F8E4M3FN, 4, 3, 7},    {DType::F8E4M3FNUZ, 4, 3, 8}, {DType::F8E5M2, 5, 2, 15},
    {DType::F8E5M2FNUZ, 5, 2, 16}, {DType::F4E2M1, 2, 1, 1},
};

// Encodes by search through all finite values, sorted: the nearest one, the even code where two are as near.
TEST(FloatFormats, SmallFloatsEncodeToTheNearestValue) {
  for (const SmallFormat& format : kSmallFormats) {
    struct Point {
      double value;
      std::uint8_t code;
    };
    std::vector<Point> points;
    for (int code = 0; code < (1 << (format.exponent_bits + format.mantissa_bits)); ++code) {
      const float value = small_float_to_f32(format.dtype, static_cast<std::uint8_t>(code));
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(value, value_by_definition(static_cast<std::uint32_t>(code), format.exponent_bits,
                                           format.mantissa_bits, format.bias));
      points.push_back({value, static_cast<std::uint8_t>(code)});
    }
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
      ASSERT_LT(points[i].value, points[i + 1].value);
      const auto middle = static_cast<float>((points[i].value + points[i + 1].value) / 2);
      const std::uint8_t even = points[i].code % 2 == 0 ? points[i].code : points[i + 1].code;
      for (bool saturate : {false, true}) {
        const auto encoded = [&](float value) { return f32_to_small_float(format.dtype, value, saturate); };
        ASSERT_EQ(encoded(static_cast<float>(points[i].value)), points[i].code);
        ASSERT_EQ(encoded(middle), even);
        ASSERT_EQ(encoded(std::nextafter(middle, 0.0f)), points[i].code);
        ASSERT_EQ(encoded(std::nextafter(middle, kInfinity)), points[i + 1].code);
      }
    }
  }
}

// Golden data made with ml_dtypes (data/make_small_floats.py).
TEST(FloatFormats, SmallFloatsAgreeWithMlDtypes) {
  std::ifstream file(std::string(XYNTRA_SOURCE_DIR) + "/tests/unit/types/data/small_floats.txt");
  std::string kind, name;
  std::int64_t lines = 0;
  while (file >> kind >> name) {
    const DType dtype = dtype_named(name).value();
    std::uint32_t first = 0, second = 0, third = 0;
    file >> std::hex >> first >> second;
    if (kind == "decode") {
      ASSERT_EQ(bits(small_float_to_f32(dtype, static_cast<std::uint8_t>(first))), second)
          << name << ' ' << first;
    } else {
      file >> std::hex >> third;
      const float probe = std::bit_cast<float>(first);
      ASSERT_EQ(f32_to_small_float(dtype, probe, true), second) << name << ' ' << probe;
      ASSERT_EQ(f32_to_small_float(dtype, probe, false), third) << name << ' ' << probe;
    }
    ++lines;
  }
  EXPECT_GT(lines, 2000);
}

TEST(FloatFormats, SpecialValuesFollowTheCastTables) {
  struct Row {
    DType dtype;
    float value;
    std::uint8_t saturating, otherwise;
  };
  const Row rows[] = {
      {DType::F8E4M3FN, kInfinity, 0x7e, 0x7f},
      {DType::F8E4M3FN, -kInfinity, 0xfe, 0xff},
      {DType::F8E4M3FN, kNaN, 0x7f, 0x7f},
      {DType::F8E4M3FN, -kNaN, 0xff, 0xff},
      {DType::F8E4M3FN, -0.0f, 0x80, 0x80},
      {DType::F8E4M3FN, 1e6f, 0x7e, 0x7f},
      {DType::F8E4M3FNUZ, kInfinity, 0x7f, 0x80},
      {DType::F8E4M3FNUZ, -kInfinity, 0xff, 0x80},
      {DType::F8E4M3FNUZ, -kNaN, 0x80, 0x80},
      {DType::F8E4M3FNUZ, -0.0f, 0x00, 0x00},
      {DType::F8E5M2, kInfinity, 0x7b, 0x7c},
      {DType::F8E5M2, -kInfinity, 0xfb, 0xfc},
      {DType::F8E5M2, kNaN, 0x7e, 0x7e},
      {DType::F8E5M2, -0.0f, 0x80, 0x80},
      {DType::F8E5M2FNUZ, kInfinity, 0x7f, 0x80},
      {DType::F8E5M2FNUZ, -1e-30f, 0x00, 0x00},
      {DType::F4E2M1, kInfinity, 0x7, 0x7},
      {DType::F4E2M1, -1e6f, 0xf, 0xf},
      {DType::F4E2M1, kNaN, 0x8, 0x8},
      {DType::F4E2M1, -0.0f, 0x8, 0x8},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(f32_to_small_float(row.dtype, row.value, true), row.saturating)
        << name_of(row.dtype) << row.value;
    EXPECT_EQ(f32_to_small_float(row.dtype, row.value, false), row.otherwise)
        << name_of(row.dtype) << row.value;
  }
}

TEST(FloatFormats, ScalesArePowersOfTwo) {
  for (int code = 0; code < 255; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float value = small_float_to_f32(DType::F8E8M0, byte);
    ASSERT_EQ(value, std::ldexp(1.0f, code - 127));
    for (ScaleRounding rounding : {ScaleRounding::Nearest, ScaleRounding::Up, ScaleRounding::Down}) {
      ASSERT_EQ(f32_to_f8e8m0(value, false, rounding), byte);
      ASSERT_EQ(f32_to_f8e8m0(-value, true, rounding), byte);
    }
    if (code == 254) continue;
    const float above = std::nextafter(value, kInfinity);
    const float middle = 1.5f * value;
    ASSERT_EQ(f32_to_f8e8m0(above, false, ScaleRounding::Up), code + 1);
    ASSERT_EQ(f32_to_f8e8m0(above, false, ScaleRounding::Nearest), byte);
    ASSERT_EQ(f32_to_f8e8m0(middle, false, ScaleRounding::Nearest), code + 1);
    ASSERT_EQ(f32_to_f8e8m0(std::nextafter(middle, 0.0f), false, ScaleRounding::Nearest), byte);
    ASSERT_EQ(f32_to_f8e8m0(std::nextafter(2 * value, 0.0f), false, ScaleRounding::Down), byte);
  }
  EXPECT_TRUE(std::isnan(small_float_to_f32(DType::F8E8M0, 0xff)));
}

TEST(FloatFormats, ScalesOutOfRangeSaturateOrAreNaN) {
  for (ScaleRounding rounding : {ScaleRounding::Nearest, ScaleRounding::Up}) {
    EXPECT_EQ(f32_to_f8e8m0(0.0f, true, rounding), 0x00);
    EXPECT_EQ(f32_to_f8e8m0(0.0f, false, rounding), 0xff);
    EXPECT_EQ(f32_to_f8e8m0(0x1p-140f, true, rounding), 0x00);
    EXPECT_EQ(f32_to_f8e8m0(0x1p-140f, false, rounding), 0xff);
    EXPECT_EQ(f32_to_f8e8m0(0x1.9p127f, true, rounding), 0xfe);
    EXPECT_EQ(f32_to_f8e8m0(0x1.9p127f, false, rounding), 0xff);
    EXPECT_EQ(f32_to_f8e8m0(kInfinity, true, rounding), 0xfe);
    EXPECT_EQ(f32_to_f8e8m0(kInfinity, false, rounding), 0xff);
    EXPECT_EQ(f32_to_f8e8m0(kNaN, true, rounding), 0xff);
  }
  EXPECT_EQ(f32_to_f8e8m0(0x1.9p127f, false, ScaleRounding::Down), 0xfe);
  EXPECT_EQ(f32_to_small_float(DType::F8E8M0, 1.1f, true), 0x80);  // Up is the default: 2
}

TEST(FloatFormats, RoundToIsEncodeThenDecode) {
  EXPECT_EQ(round_to(DType::F32, 0.1f), 0.1f);
  EXPECT_EQ(round_to(DType::F64, 0.1f), 0.1f);
  EXPECT_EQ(round_to(DType::F16, 0.1f), 0.0999755859375f);
  EXPECT_EQ(round_to(DType::BF16, 0.1f), 0.10009765625f);
  EXPECT_EQ(round_to(DType::F8E4M3FN, 1000.0f), 448.0f);
  EXPECT_EQ(round_to(DType::F4E2M1, 2.5f), 2.0f);
}

}  // namespace
}  // namespace xyntra
