// Strings that a host op makes, charged to its budget while they are collected.
#pragma once

#include <string>
#include <vector>

#include "ops/host_context.h"

namespace xyntra {

class StringList {
 public:
  explicit StringList(HostContext& context) : context_(context), charge_(context.budget()) {}

  Status add(std::string text) {
    constexpr std::int64_t kHeld = sizeof(std::string) + sizeof(std::string_view);
    XYNTRA_CHECK_OK(charge_.grow(kHeld + static_cast<std::int64_t>(text.size())));
    XYNTRA_CHECK_OK(context_.worked(1 + static_cast<std::int64_t>(text.size())));
    texts_.push_back(std::move(text));
    return {};
  }
  std::size_t size() const { return texts_.size(); }
  // As result i, of as many elements as were added.
  Status give(std::size_t i, Dims dims) {
    const std::vector<std::string_view> elements(texts_.begin(), texts_.end());
    XYNTRA_TRY(Tensor tensor, Tensor::of_strings(std::move(dims), elements, context_.budget()));
    context_.set_result(i, std::move(tensor));
    return {};
  }

 private:
  HostContext& context_;
  Charge charge_;
  std::vector<std::string> texts_;
};

}  // namespace xyntra
