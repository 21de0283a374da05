// A tensor of torch is a window over a storage: sizes, strides and an offset in elements.
#pragma once

#include <memory>
#include <span>

#include "types/tensor.h"

namespace xyntra {

struct StridedView {
  DType dtype = DType::F32;
  Dims sizes;
  Dims strides;
  std::int64_t offset = 0;
};

// The tensor that the view shows: a borrowed part of the storage, which `owner` keeps, where its elements lie one behind the
// other, else a copy. BadModel error where it leaves the storage; Limit error where a copy would be far larger than the storage.
Result<Tensor> strided_tensor(const StridedView& view, std::span<const std::byte> storage,
                              const std::shared_ptr<const void>& owner);

}  // namespace xyntra
