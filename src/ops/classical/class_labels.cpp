#include "ops/classical/class_labels.h"

#include <algorithm>

#include "support/text/text.h"

namespace xyntra {

Result<ClassLabels> ClassLabels::read(const OpContext& c, std::string_view integers, std::string_view texts) {
  ClassLabels labels{c.integers(integers), c.texts(texts)};
  if (!labels.integers.empty() && !labels.texts.empty())
    return c.fail("labels are given both as integers and as strings");
  if (!std::ranges::all_of(labels.texts, is_utf8)) return c.fail("a label is not UTF-8");
  return labels;
}

Result<Tensor> ClassLabels::picked(const HostContext& c, std::span<const std::size_t> places) const {
  const Dims dims{static_cast<std::int64_t>(places.size())};
  if (texts.empty()) {
    XYNTRA_TRY(Tensor made, c.allocate(DType::I64, dims));
    std::ranges::transform(places, made.mutable_view<std::int64_t>().begin(),
                           [this](std::size_t place) { return integers.at(place); });
    return made;
  }
  std::vector<std::string_view> elements;
  for (std::size_t place : places) elements.push_back(texts.at(place));
  return Tensor::of_strings(dims, elements, c.budget());
}

Status ClassLabels::give(HostContext& c, std::span<const std::size_t> winners, Tensor scores) const {
  XYNTRA_TRY(Tensor labels, picked(c, winners));
  c.set_result(0, std::move(labels));
  if (c.output_count() > 1) c.set_result(1, std::move(scores));
  return {};
}

}  // namespace xyntra
