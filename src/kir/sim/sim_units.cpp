// Dot-product units, bit for bit as they round.
#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "kir/intrinsics.h"
#include "kir/sim/sim_runner.h"

namespace xyntra::kir::sim {
namespace {

// As AVX512_BF16 adds two products to a sum.
float with_pair(float sum, const float* a, const float* b) {
  sum = flushed(std::fma(flushed(a[1]), flushed(b[1]), flushed(sum)));
  return flushed(std::fma(flushed(a[0]), flushed(b[0]), sum));
}

// An exact number, sum + rest with rest far below, rounded to odd: towards zero, and the last bit is 1 where something was lost.
float rounded_to_odd(double sum, double rest) {
  if (std::isnan(sum) || std::isinf(sum)) return static_cast<float>(sum);
  constexpr double kBeyond = 0x1p128;
  if (std::abs(sum) < static_cast<double>(FLT_MIN)) return std::copysign(0.0F, static_cast<float>(sum));
  if (std::abs(sum) >= kBeyond) return std::copysign(INFINITY, static_cast<float>(sum));
  float near = static_cast<float>(sum);
  const double distance = std::abs(static_cast<double>(near)) - std::abs(sum);
  const bool rest_pulls_back = rest != 0 && std::signbit(rest) != std::signbit(sum);
  const bool exact = distance == 0 && rest == 0;
  if (distance > 0 || (distance == 0 && rest_pulls_back)) near = std::nextafter(near, 0.0F);
  return exact ? near : std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) | 1U);
}

float odd_sum(float x, float y) {
  const double a = flushed(x), b = flushed(y), sum = a + b;
  // What the sum of two doubles lost, exactly.
  const double b_seen = sum - a, rest = (a - (sum - b_seen)) + (b - b_seen);
  return rounded_to_odd(sum, std::isfinite(sum) ? rest : 0);
}
float odd_product(float x, float y) {  // exact: 8 bits times 8
  return rounded_to_odd(static_cast<double>(flushed(x)) * static_cast<double>(flushed(y)), 0);
}

// As BFMMLA adds four products to a sum.
float with_four(float sum, const float* a, const float* b) {
  for (int e = 0; e < 4; e += 2)
    sum = odd_sum(sum, odd_sum(odd_product(a[e], b[e]), odd_product(a[e + 1], b[e + 1])));
  return sum;
}

// The next bf16 of a float's split, and the rest.
std::uint16_t take_part(float& rest, bool last) {
  const auto bits = std::bit_cast<std::uint32_t>(rest) + (last ? 0U : 0x8000U);
  rest -= std::bit_cast<float>(bits & 0xffff0000U);
  return static_cast<std::uint16_t>(bits >> 16U);
}

}  // namespace

bool Runner::split_bf16x3(const Context& context, const Step& step, std::size_t lane) {
  constexpr std::size_t kParts = 3, kSides = 2;
  const Toucher by = toucher(lanes(context).thread[lane]);
  std::array<Box, kParts + kSides> boxes;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!find_box(context, step, i, lane, boxes[i])) return false;
  }
  std::array<Elements, kParts> made;
  Elements elements;
  for (std::size_t side = 0; side < kSides; ++side) {
    if (!read_box(context, step, boxes[kParts + side], lane, by, elements)) return false;
    const std::vector<float> numbers = floats(boxes[kParts + side], elements);
    for (std::size_t l = 0; l < numbers.size(); ++l) {
      float rest = numbers[l];
      for (std::size_t part = 0; part < kParts; ++part) {
        const std::uint16_t bits = take_part(rest, part + 1 == kParts);
        made[part].resize(numbers.size() * kSides * sizeof bits);
        std::memcpy(&made[part][(l * kSides + side) * sizeof bits], &bits, sizeof bits);
      }
    }
  }
  for (std::size_t part = 0; part < kParts; ++part) {
    if (!write_box(context, step, boxes[part], lane, by, made[part])) return false;
  }
  return true;
}

bool Runner::dot_groups(const Context& context, const Step& step, std::size_t lane) {
  const Toucher by = toucher(lanes(context).thread[lane]);
  const bool pairs = step.node->intrinsic == Intrinsic::Dot2Bf16;
  const std::size_t group = pairs ? 2 : 4, rows = pairs ? 1 : 2, columns = pairs ? 16 : 2;
  std::array<Box, 4> boxes;
  std::array<std::vector<float>, 4> values;
  Elements elements;
  for (std::size_t i = 0; i < step.places.size(); ++i) {
    if (!find_box(context, step, i, lane, boxes[i])) return false;
    if (!read_box(context, step, boxes[i], lane, by, elements)) return false;
    values[i] = floats(boxes[i], elements);
  }
  const std::vector<float>& right = values[rows + 1];
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<float>& left = values[1 + i];
    left.resize(group, 0.0F);
    for (std::size_t j = 0; j < columns; ++j) {
      float& sum = values[0][i * columns + j];
      sum = pairs ? with_pair(sum, left.data(), right.data() + group * j)
                  : with_four(sum, left.data(), right.data() + group * j);
    }
  }
  te::settle_nans(DType::F32, values[0].data(), static_cast<int>(values[0].size()));
  elements.resize(values[0].size() * sizeof(float));
  te::store_lanes(DType::F32, elements.data(), 1, values[0].data(), static_cast<int>(values[0].size()));
  return write_box(context, step, boxes[0], lane, by, elements);
}

// Bytes with a sign or without, and sums of 32 bits.
std::vector<std::int32_t> Runner::integers(const Box& box, const Elements& elements) const {
  const DType dtype = kernel_.buffer(box.buffer).dtype;
  std::vector<std::int32_t> values(static_cast<std::size_t>(box.rows * box.columns));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::I32) {
      std::memcpy(&values[i], &elements[i * sizeof(std::int32_t)], sizeof(std::int32_t));
    } else {
      const auto byte = static_cast<std::uint8_t>(elements[i]);
      values[i] = dtype == DType::U8 ? byte : static_cast<std::int8_t>(byte);
    }
  }
  return values;
}

// c[i, j] += sum(p, e) a[i, g p + e] b[p, g j + e] with g neighbours: a tile has 16 of p, a vector one.
bool Runner::multiply_bytes(const Context& context, const Step& step, std::size_t lane) {
  struct Unit {
    std::size_t rows, columns, groups, group, factors;  // factors: places that rows of a come from
  };
  const Unit unit = step.node->intrinsic == Intrinsic::TileMultiplyI8 ? Unit{16, 16, 16, 4, 1}
                    : step.node->intrinsic == Intrinsic::Dot4I8       ? Unit{1, 16, 1, 4, 1}
                                                                      : Unit{2, 2, 1, 8, 2};
  const Toucher by = toucher(lanes(context).thread[lane]);
  std::array<Box, 4> boxes;
  std::array<std::vector<std::int32_t>, 4> values;
  Elements elements;
  for (std::size_t i = 0; i < step.places.size(); ++i) {
    if (!find_box(context, step, i, lane, boxes[i])) return false;
    if (!read_box(context, step, boxes[i], lane, by, elements)) return false;
    values[i] = integers(boxes[i], elements);
  }
  const std::size_t depth = unit.groups * unit.group;
  const std::vector<std::int32_t>& right = values[1 + unit.factors];
  if (values[0].size() != unit.rows * unit.columns || right.size() != depth * unit.columns ||
      (unit.groups > 1 && values[1].size() != unit.rows * depth))
    return fault(context, step, lane, "tiles of 16 rows of 64 bytes are multiplied");
  std::vector<std::int32_t> left;  // all rows; what is missing counts as zero
  for (std::size_t i = 0; i < unit.factors; ++i) {
    values[1 + i].resize(unit.rows / unit.factors * depth, 0);
    left.insert(left.end(), values[1 + i].begin(), values[1 + i].end());
  }
  elements.resize(values[0].size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < unit.rows; ++i) {
    for (std::size_t j = 0; j < unit.columns; ++j) {
      auto sum = static_cast<std::uint32_t>(values[0][i * unit.columns + j]);  // wraps
      for (std::size_t k = 0; k < depth; ++k) {
        const std::size_t line = k / unit.group * unit.columns + j;
        sum += static_cast<std::uint32_t>(left[i * depth + k] * right[line * unit.group + k % unit.group]);
      }
      std::memcpy(&elements[(i * unit.columns + j) * sizeof sum], &sum, sizeof sum);
    }
  }
  return write_box(context, step, boxes[0], lane, by, elements);
}

}  // namespace xyntra::kir::sim
