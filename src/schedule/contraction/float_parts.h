// f32 numbers as three bf16 ones each, so that units for bf16 make products of f32:
//
//   x = x0 + x1 + x2,  x0 = bf16(x),  x1 = bf16(x - x0),  x2 = x - x0 - x1
//
// exactly, since 24 digits are three times 8. Of the nine products of two numbers' parts the six largest are added up:
//
//   x y ~ x0 y0 + (x0 y1 + x1 y0) + (x0 y2 + x1 y1 + x2 y0)
//
// Each of them is exact in f32. With |x1| <= 2^-8 |x| and |x2| <= 2^-17 |x| the other three are less than 2^-24 |x y| together:
// a product is as good as one that is rounded to f32. It takes numbers that are finite and far from the largest; parts below
// 2^-126, which units take for zero, are lost.
#pragma once

#include <array>
#include <cstdint>

namespace xyntra {

inline constexpr std::int64_t kFloatParts = 3;

// One product of parts after another, so that each but the first has one of its factors at hand.
struct PartProduct {
  std::int64_t left, right;
};
inline constexpr std::array<PartProduct, 6> kPartProducts{{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}};

}  // namespace xyntra
