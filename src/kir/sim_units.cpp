// Units that multiply a few neighbours along a sum, to their own digits.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "kir/intrinsics.h"
#include "kir/sim_runner.h"

namespace xyntra::kir::sim {
namespace {

float flushed(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0F, x) : x; }

// As AVX512_BF16 adds two products to a sum.
float with_pair(float sum, const float* a, const float* b) {
  sum = flushed(std::fma(flushed(a[1]), flushed(b[1]), flushed(sum)));
  return flushed(std::fma(flushed(a[0]), flushed(b[0]), sum));
}

// An exact number, sum + rest with rest far below, rounded to odd: towards zero, and the last digit is 1 where something was lost.
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
float odd_product(float x, float y) {  // exact: 8 digits times 8
  return rounded_to_odd(static_cast<double>(flushed(x)) * static_cast<double>(flushed(y)), 0);
}

// As BFMMLA adds four products to a sum.
float with_quad(float sum, const float* a, const float* b) {
  for (int e = 0; e < 4; e += 2)
    sum = odd_sum(sum, odd_sum(odd_product(a[e], b[e]), odd_product(a[e + 1], b[e + 1])));
  return sum;
}

}  // namespace

bool Runner::multiply_groups(const Context& context, const Step& step, std::size_t lane) {
  const Toucher by = toucher(lanes(context).thread[lane]);
  const bool pairs = step.node->intrinsic == Intrinsic::MultiplyPairsBf16;
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
                  : with_quad(sum, left.data(), right.data() + group * j);
    }
  }
  te::settle_nans(DType::F32, values[0].data(), static_cast<int>(values[0].size()));
  elements.resize(values[0].size() * sizeof(float));
  te::store_lanes(DType::F32, elements.data(), 1, values[0].data(), static_cast<int>(values[0].size()));
  return write_box(context, step, boxes[0], lane, by, elements);
}

}  // namespace xyntra::kir::sim
