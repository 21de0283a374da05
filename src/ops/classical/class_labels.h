// The labels that a classifier of ai.onnx.ml gives out: integers, or strings.
#pragma once

#include <string>
#include <vector>

#include "ops/host_context.h"

namespace xyntra {

struct ClassLabels {
  std::vector<std::int64_t> integers;
  std::vector<std::string> texts;

  // An error where both are given.
  static Result<ClassLabels> read(const OpContext& c, std::string_view integers, std::string_view texts);
  std::size_t size() const { return texts.empty() ? integers.size() : texts.size(); }
  DType dtype() const { return texts.empty() ? DType::I64 : DType::String; }
  // Those at these places.
  Result<Tensor> picked(const HostContext& c, std::span<const std::size_t> places) const;
  // The results of a classifier: the labels of the winners, and their scores where they are asked for.
  Status give(HostContext& c, std::span<const std::size_t> winners, Tensor scores) const;
};

}  // namespace xyntra
