#include "runtime/donated.h"

#include <algorithm>

#include "support/copy_bytes.h"

namespace xyntra {

Status check_donated(const DonatedInput& donated, const Tensor& input, const std::string& name) {
  if (donated.axis >= input.dims().size() || bits_of(input.dtype()) % 8 != 0)
    return usage_error("input '" + name + "' cannot be donated");
  Dims whole = input.dims();
  const std::int64_t rows = std::exchange(whole[donated.axis], donated.capacity);
  if (rows > donated.capacity) {
    return usage_error("input '" + name + "' has " + std::to_string(rows) + " rows in memory for " +
                       std::to_string(donated.capacity));
  }
  XYNTRA_TRY(const std::int64_t bytes, byte_size(input.dtype(), whole));
  if (donated.memory.size() != static_cast<std::size_t>(bytes)) {
    return usage_error("input '" + name + "' is donated with " + std::to_string(donated.memory.size()) +
                       " bytes; " + std::to_string(donated.capacity) + " rows take " + std::to_string(bytes));
  }
  if (!is_aligned_for(input.dtype(), donated.memory))
    return usage_error("input '" + name + "' is donated with memory that is not aligned for its elements");
  return {};
}

void copy_rows(const Tensor& tensor, std::size_t axis, RowMemory<std::span<const std::byte>> from,
               RowMemory<std::span<std::byte>> to) {
  const Dims& dims = tensor.dims();
  std::int64_t outer = 1, row = bits_of(tensor.dtype()) / 8;
  for (std::size_t d = 0; d < axis; ++d) outer *= dims[d];
  for (std::size_t d = axis + 1; d < dims.size(); ++d) row *= dims[d];
  const auto length = static_cast<std::size_t>(dims[axis] * row);
  for (std::int64_t i = 0; i < outer; ++i) {
    const auto source = static_cast<std::size_t>(i * row * from.capacity);
    const auto target = static_cast<std::size_t>(i * row * to.capacity);
    copy_bytes(from.memory.subspan(source, length), to.memory.subspan(target, length));
  }
}

Result<Tensor> dense_copy(const DonatedInput& donated, const Tensor& input,
                          const std::shared_ptr<Budget>& budget) {
  XYNTRA_TRY(Tensor copy, Tensor::allocate(input.dtype(), input.dims(), budget));
  copy_rows(input, donated.axis, {donated.memory, donated.capacity},
            {copy.mutable_bytes(), input.dims()[donated.axis]});
  return copy;
}

bool is_aligned_for(DType dtype, std::span<const std::byte> memory) {
  const auto alignment = static_cast<std::uintptr_t>(std::max(bits_of(dtype) / 8, 1));
  return reinterpret_cast<std::uintptr_t>(memory.data()) % alignment == 0;
}

}  // namespace xyntra
