// Runs kernel text on the simulator with arrays of floats.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kir/sim.h"

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

}  // namespace xyntra::kir
