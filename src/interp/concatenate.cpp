#include "interp/concatenate.h"

#include <algorithm>

#include "support/copy_bytes.h"

namespace xyntra {

std::optional<Result<Tensor>> concatenated(const Node& node, std::span<const Datum> operands,
                                           ThreadPool& pool, const std::shared_ptr<Budget>& budget) {
  constexpr std::int64_t kLong = 4096, kAtOnce = 1 << 18;  // elements, bytes
  const auto given = node.attributes.find("axis");
  const auto* number = given == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&given->second);
  if (node.op != "Concat" || number == nullptr || operands.empty()) return std::nullopt;
  for (const Datum& operand : operands) {
    if (operand.kind != Datum::Kind::Tensor) return std::nullopt;
  }
  const Tensor& first = operands[0].tensor;
  const auto rank = static_cast<std::int64_t>(first.dims().size());
  const std::int64_t axis = *number < 0 ? *number + rank : *number;
  if (axis < 0 || axis >= rank || is_string(first.dtype()) || bits_of(first.dtype()) < 8) return std::nullopt;
  const auto at = static_cast<std::size_t>(axis);
  Dims dims = first.dims();
  dims[at] = 0;
  for (const Datum& operand : operands) {
    const Dims& others = operand.tensor.dims();
    if (operand.tensor.dtype() != first.dtype() || others.size() != dims.size()) return std::nullopt;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (d != at && others[d] != dims[d]) return std::nullopt;
    }
    dims[at] += others[at];
  }
  auto made = Tensor::allocate(first.dtype(), dims, budget);
  if (!made || made->count() < kLong) return made ? std::nullopt : std::optional(std::move(made));
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < at; ++d) rows *= dims[d];
  const std::span<std::byte> to = made->mutable_bytes();
  const std::size_t row = to.size() / static_cast<std::size_t>(rows);
  const auto together = std::max<std::int64_t>(1, kAtOnce / static_cast<std::int64_t>(row));
  pool.parallel_for(0, rows, together, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::size_t place = static_cast<std::size_t>(r) * row;
      for (const Datum& operand : operands) {
        const std::span<const std::byte> from = operand.tensor.bytes();
        const std::size_t part = from.size() / static_cast<std::size_t>(rows);
        copy_bytes(from.subspan(static_cast<std::size_t>(r) * part, part), to.subspan(place, part));
        place += part;
      }
    }
  });
  return made;
}

}  // namespace xyntra
