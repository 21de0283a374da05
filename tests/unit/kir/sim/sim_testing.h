// Runs kernel text on the simulator with arrays of floats.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kir/sim/sim.h"
#include "types/float_formats.h"

namespace xyntra::kir {

// Arguments as bytes, in the order of the kernel's.
class Arguments {
 public:
  template <class T>
  Arguments& add(const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    buffers_.push_back(std::move(bytes));
    return *this;
  }
  template <class T>
  std::vector<T> get(std::size_t position) const {
    std::vector<T> values(buffers_[position].size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), buffers_[position].data(), buffers_[position].size());
    return values;
  }
  std::size_t count() const { return buffers_.size(); }
  std::vector<std::span<std::byte>> spans() { return {buffers_.begin(), buffers_.end()}; }

 private:
  std::vector<std::vector<std::byte>> buffers_;
};

inline Kernel parsed(const std::string& text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().message);
  return kernel ? *kernel : Kernel{};
}

// The message of a run, or "" when it went well.
inline std::string run(const Kernel& kernel, Arguments& arguments, const SymbolBindings& bindings = {},
                       const SimOptions& options = {}) {
  auto report = simulate(kernel, arguments.spans(), bindings, options);
  return report ? "" : report.error().message;
}

inline std::vector<float> counting(std::size_t count, float first = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

// Small whole numbers: sums of their products are exact, whatever their order.
inline std::vector<float> small_numbers(std::int64_t count, std::uint32_t state) {
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& value : made) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 24U) % 7 - 3);
  }
  return made;
}

inline std::vector<std::uint16_t> halves(const std::vector<float>& values, DType dtype) {
  std::vector<std::uint16_t> made;
  for (float value : values) made.push_back(dtype == DType::BF16 ? f32_to_bf16(value) : f32_to_f16(value));
  return made;
}

}  // namespace xyntra::kir
