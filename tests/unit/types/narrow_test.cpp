#include "types/narrow.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "types/float_formats.h"

namespace xyntra {
namespace {

void expect_bits_of_scalars(const std::vector<float>& from) {
  std::vector<std::uint16_t> result(from.size());
  for (const DType to : {DType::F16, DType::BF16}) {
    narrow(from, to, result);
    for (std::size_t i = 0; i < from.size(); ++i)
      ASSERT_EQ(result[i], to == DType::F16 ? f32_to_f16(from[i]) : f32_to_bf16(from[i]))
          << std::bit_cast<std::uint32_t>(from[i]);
  }
}

// Every exponent and sign with the mantissas where rounding changes its mind.
TEST(Narrow, HasTheBitsOfTheScalarFunctions) {
  std::vector<float> from;
  for (std::uint32_t high = 0; high < 1U << 16; ++high) {
    for (const std::uint32_t low :
         {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xf000U, 0xffffU})
      from.push_back(std::bit_cast<float>(high << 16 | low));
  }
  expect_bits_of_scalars(from);
}

TEST(Narrow, OfRandomBitsAndOddLengths) {
  std::mt19937 random(1);
  for (const std::size_t length : {0U, 1U, 255U, 256U, 257U, 100003U}) {
    std::vector<float> from(length);
    for (float& one : from) {
      const std::uint32_t bits = random();
      one = std::bit_cast<float>((bits & 0x7f800000) == 0x7f800000 && length != 100003U ? bits & 0x807fffff
                                                                                        : bits);
    }
    expect_bits_of_scalars(from);
  }
}

}  // namespace
}  // namespace xyntra
