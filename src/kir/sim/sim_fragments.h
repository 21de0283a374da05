// What matrix units of warps and warpgroups multiply: elements in words of registers, and the sums they go into.
#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "te/lanes.h"

namespace xyntra::kir::sim {

// How words of 32 bits hold a factor of 32 bytes of depth: thread t of a warp has in word w of the first factor elements of row
// t / 4 + 8 (w mod 2), of the second one of column t / 4.
struct Fragment {
  explicit Fragment(DType of) : dtype(of), in_word(32 / static_cast<std::size_t>(bits_of(of))) {}
  DType dtype;
  std::size_t in_word;  // elements
  std::size_t depth() const { return 8 * in_word; }
  // Along the depth: of element e of a word in the lower half of the depth or the upper one.
  std::size_t at(std::size_t thread, bool upper, std::size_t e) const {
    return (upper ? depth() / 2 : 0) + thread % 4 * in_word + e;
  }
};

// Elements as numbers, exactly; f32 as units take it, without the last 13 bits.
inline std::vector<double> unit_values(DType dtype, std::span<const std::byte> elements) {
  const std::size_t bytes = static_cast<std::size_t>(te::storage_bytes(dtype)),
                    count = elements.size() / bytes;
  std::vector<double> values(count);
  if (!is_float(dtype)) {
    std::vector<std::int64_t> lanes(count);
    te::load_lanes(dtype, lanes.data(), elements.data(), 1, static_cast<int>(count));
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(lanes[i]);
    return values;
  }
  constexpr std::uint32_t kKept = ~((std::uint32_t{1} << 13U) - 1);
  std::vector<float> lanes(count);
  te::load_lanes(dtype, lanes.data(), elements.data(), 1, static_cast<int>(count));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &lanes[i], sizeof bits);
    if (dtype == DType::F32 && !std::isnan(lanes[i])) bits &= kKept;
    float kept = 0;
    std::memcpy(&kept, &bits, sizeof kept);
    values[i] = static_cast<double>(kept);
  }
  return values;
}

// A sum of f32 or of i32, which wraps.
class UnitSum {
 public:
  UnitSum(DType dtype, const std::byte* memory) : integer_(dtype == DType::I32) {
    std::memcpy(&bits_, memory, sizeof bits_);
    if (!integer_) te::load_lanes(DType::F32, &float_, memory, 1, 1);
  }
  explicit UnitSum(DType dtype) : integer_(dtype == DType::I32) {}
  void fma(double a, double b) {
    if (integer_) return add(a * b);
    float_ = std::fma(static_cast<float>(a), static_cast<float>(b), float_);
  }
  void add(double product) {
    if (integer_) {
      bits_ += static_cast<std::uint32_t>(static_cast<std::int64_t>(product));
    } else {
      float_ += static_cast<float>(product);
    }
  }
  void add(const UnitSum& other) {
    bits_ += other.bits_;
    float_ += other.float_;
  }
  void put(std::byte* memory) {
    if (integer_) {
      std::memcpy(memory, &bits_, sizeof bits_);
      return;
    }
    te::settle_nans(DType::F32, &float_, 1);
    te::store_lanes(DType::F32, memory, 1, &float_, 1);
  }

 private:
  bool integer_;
  std::uint32_t bits_ = 0;
  float float_ = 0;
};

}  // namespace xyntra::kir::sim
