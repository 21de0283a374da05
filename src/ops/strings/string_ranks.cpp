#include "ops/strings/string_ranks.h"

#include <algorithm>

namespace xyntra {
namespace {

constexpr std::int64_t kPiece = 1 << 14;  // strings between two looks at the time

bool is_of_strings(const Type& type) {
  return type.element ? is_of_strings(*type.element) : type.is_tensor() && is_string(type.dtype);
}

bool casts_to_strings(const Node& node) {
  const auto to = node.attributes.find("to");
  if (node.op != "Cast" || to == node.attributes.end()) return false;
  const auto* code = std::get_if<std::int64_t>(&to->second);
  return code != nullptr && *code == onnx_code_of(DType::String);
}

}  // namespace

bool holds_strings(const Datum& datum) {
  return (datum.tensor.defined() && is_string(datum.tensor.dtype())) ||
         std::ranges::any_of(datum.items, holds_strings);
}

bool touches_strings(const Node& node, std::span<const Datum> inputs) {
  return casts_to_strings(node) || std::ranges::any_of(inputs, holds_strings);
}

bool touches_strings(const Graph& graph, const Node& node) {
  const auto is_one = [&graph](ValueId id) { return id.valid() && is_of_strings(graph.value(id).type); };
  return std::ranges::any_of(node.inputs, is_one) || std::ranges::any_of(node.outputs, is_one);
}

Result<StringRanks> StringRanks::of(std::span<const Tensor> tensors, const std::shared_ptr<Budget>& budget) {
  StringRanks made;
  made.budget_ = budget;
  made.charge_ = std::make_shared<Charge>(budget);
  std::int64_t count = 1;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined() && is_string(tensor.dtype())) count += tensor.count();
  }
  XYNTRA_CHECK_OK(made.charge_->grow(count * static_cast<std::int64_t>(sizeof(std::string_view))));
  made.sorted_.reserve(static_cast<std::size_t>(count));
  made.sorted_.emplace_back();
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || !is_string(tensor.dtype())) continue;
    for (std::int64_t i = 0; i < tensor.count(); ++i) made.sorted_.push_back(tensor.string_at(i));
  }
  if (budget) XYNTRA_CHECK_OK(budget->check_time());
  std::ranges::sort(made.sorted_);
  const auto repeated = std::ranges::unique(made.sorted_);
  made.sorted_.erase(repeated.begin(), repeated.end());
  return made;
}

Result<Tensor> StringRanks::ranks(const Tensor& strings) const {
  if (!strings.defined() || !is_string(strings.dtype())) return strings;
  XYNTRA_TRY(Tensor ranks, Tensor::allocate(DType::I64, strings.dims(), budget_));
  const auto view = ranks.mutable_view<std::int64_t>();
  for (std::int64_t i = 0; i < strings.count(); ++i) {
    if (i % kPiece == 0 && budget_) XYNTRA_CHECK_OK(budget_->check_time());
    const auto place = std::ranges::lower_bound(sorted_, strings.string_at(i));
    if (place == sorted_.end() || *place != strings.string_at(i))
      internal_error("StringRanks: a string that is not among them");
    view[static_cast<std::size_t>(i)] = place - sorted_.begin();
  }
  return ranks;
}

Result<Tensor> StringRanks::strings(const Tensor& ranks) const {
  Charge charge(budget_);
  XYNTRA_CHECK_OK(charge.grow(ranks.count() * static_cast<std::int64_t>(sizeof(std::string_view))));
  std::vector<std::string_view> elements;
  elements.reserve(static_cast<std::size_t>(ranks.count()));
  const Tensor aligned = ranks.aligned();
  for (std::int64_t rank : aligned.view<std::int64_t>()) {
    if (rank < 0 || std::cmp_greater_equal(rank, sorted_.size()))
      internal_error("StringRanks: a rank that no string has");
    elements.push_back(sorted_[static_cast<std::size_t>(rank)]);
  }
  return Tensor::of_strings(ranks.dims(), elements, budget_);
}

}  // namespace xyntra
