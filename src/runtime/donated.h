// Inputs that a caller donates together with memory for more rows, such as a KV cache.
#pragma once

#include "types/tensor.h"

namespace xyntra {

// `memory` is dense, of the input's dims but for `capacity` rows along the axis that a result extends; the input is the first
// rows of it. Of the tensor that stands for the input only dtype and dims count.
struct DonatedInput {
  std::size_t input = 0;  // position
  std::size_t axis = 0;
  std::int64_t capacity = 0;
  std::span<std::byte> memory;
  // Nobody wrote to the memory since the last run of this program that was given it: a device that has a copy keeps it.
  bool unchanged = false;
  bool in_place = false;  // set by a run: the result that extends it lies there, too
};

// Usage error unless the memory is of that size, aligned, and holds the rows in use.
Status check_donated(const DonatedInput& donated, const Tensor& input, const std::string& name);

// Memory that has room for so many rows along an axis.
template <class Bytes>
struct RowMemory {
  Bytes memory;
  std::int64_t capacity = 0;
};
// The tensor's rows along an axis, from memory with one capacity to memory with another; both hold them.
void copy_rows(const Tensor& tensor, std::size_t axis, RowMemory<std::span<const std::byte>> from,
               RowMemory<std::span<std::byte>> to);

// The rows in use as a tensor of their own.
Result<Tensor> dense_copy(const DonatedInput& donated, const Tensor& input,
                          const std::shared_ptr<Budget>& budget);

bool is_aligned_for(DType dtype, std::span<const std::byte> memory);

}  // namespace xyntra
