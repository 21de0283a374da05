#include "types/narrow.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "support/result.h"
#include "types/float_formats.h"

namespace xyntra {
namespace {

constexpr std::size_t kBlock = 256;  // a number that the compiler knows: it makes vectors of the loops below
using Wide = std::array<std::uint32_t, kBlock>;
using Narrow = std::array<std::uint16_t, kBlock>;

constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;

bool has_nan(const Wide& bits) {
  std::uint32_t any = 0;
  for (const std::uint32_t one : bits) any |= static_cast<std::uint32_t>((one & kMagnitude) > kInfinity);
  return any != 0;
}

void to_bf16(const Wide& bits, Narrow& result) {
  for (std::size_t i = 0; i < kBlock; ++i)
    result[i] = static_cast<std::uint16_t>((bits[i] + 0x7fff + (bits[i] >> 16 & 1)) >> 16);
}

// Below the smallest normal number a sum with 1/2 rounds to multiples of 2^-24, whose number are the bits; above the largest is infinity.
void to_f16(const Wide& bits, Narrow& result) {
  constexpr std::uint32_t kSmallestNormal = 0x38800000, kOverflow = 0x47800000, kHalf = 0x3f000000;
  constexpr std::uint32_t kBias = (127 - 15) << 10;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint32_t magnitude = bits[i] & kMagnitude;
    const std::uint32_t normal = ((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - kBias;
    const std::uint32_t small = std::min(magnitude, kSmallestNormal);
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + std::bit_cast<float>(kHalf)) - kHalf;
    const std::uint32_t finite = magnitude < kSmallestNormal ? subnormal : normal;
    const std::uint32_t code = magnitude < kOverflow ? finite : 0x7c00;
    result[i] = static_cast<std::uint16_t>(code | (bits[i] >> 16 & 0x8000));
  }
}

}  // namespace

void narrow(std::span<const float> from, DType to, std::span<std::uint16_t> result) {
  narrow(std::as_bytes(from), to, result);
}

void narrow(std::span<const std::byte> from, DType to, std::span<std::uint16_t> result) {
  require(from.size() == result.size() * sizeof(float) && (to == DType::F16 || to == DType::BF16),
          "narrow: other operands");
  const bool half = to == DType::F16;
  for (std::size_t begin = 0; begin < result.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, result.size() - begin);
    Wide bits{};
    Narrow made{};
    std::memcpy(bits.data(), from.data() + begin * sizeof(float), count * sizeof(float));
    if (has_nan(bits)) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto value = std::bit_cast<float>(bits[i]);
        made[i] = half ? f32_to_f16(value) : f32_to_bf16(value);
      }
    } else if (half) {
      to_f16(bits, made);
    } else {
      to_bf16(bits, made);
    }
    std::memcpy(result.data() + begin, made.data(), count * sizeof(std::uint16_t));
  }
}

}  // namespace xyntra
