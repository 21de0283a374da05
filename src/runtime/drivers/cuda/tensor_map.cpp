#include <algorithm>
#include <bit>

#include "runtime/drivers/cuda/state.h"
#include "support/text/text.h"

namespace xyntra::cuda {
namespace {

constexpr std::int64_t kRowGrain = 16;  // bytes: where rows begin
constexpr std::int64_t kMostExtent = std::int64_t{1} << 32, kMostStride = std::int64_t{1} << 40;

CUtensorMapDataType type_of(int element_bytes) {
  return element_bytes == 8 ? kMap64 : element_bytes == 4 ? kMap32 : element_bytes == 2 ? kMap16 : kMap8;
}

// The innermost dimension first, as the driver counts them.
template <class To, class From>
std::vector<To> reversed(const std::vector<From>& extents) {
  std::vector<To> made;
  for (std::size_t d = extents.size(); d-- > 0;) made.push_back(static_cast<To>(extents[d]));
  return made;
}

}  // namespace

Result<TensorMap> Device::tensor_map(const BoxedTensor& tensor) const {
  XYNTRA_CHECK_OK(state_->usable());
  const auto unsupported = [](const std::string& what) {
    return failure(ErrorClass::Unsupported, "no boxes can be copied of " + what);
  };
  const Library& cuda = opened_library();
  if (cuda.TensorMapEncodeTiled == nullptr)
    return unsupported("a tensor by this driver: CUDA 12.0 or newer has tensor maps");
  std::vector<std::uint64_t> strides;  // bytes from row to row, from plane to plane, …
  std::int64_t bytes = tensor.element_bytes;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    const std::int64_t extent = tensor.shape[d];
    if (extent < 1) return unsupported("a tensor of no elements");
    if (extent > kMostExtent || bytes >= kMostStride) return unsupported("a tensor that is so large");
    bytes *= extent;
    if (d == 0) break;
    if (bytes % kRowGrain != 0)
      return unsupported("a tensor whose rows of " + std::to_string(bytes) +
                         " bytes do not begin at multiples of 16");
    strides.push_back(static_cast<std::uint64_t>(bytes));
  }
  const auto extents = reversed<std::uint64_t>(tensor.shape);
  const auto box = reversed<std::uint32_t>(tensor.box);
  const std::vector<std::uint32_t> neighbours(box.size(), 1);
  const Current current(*state_);
  CUtensorMap made;
  XYNTRA_CHECK_OK(state_->status(
      cuda.TensorMapEncodeTiled(&made, type_of(tensor.element_bytes), static_cast<unsigned>(extents.size()),
                                reinterpret_cast<void*>(tensor.address), extents.data(), strides.data(),
                                box.data(), neighbours.data(), kMapNotInterleaved,
                                tensor.swizzled ? kMapSwizzle128 : kMapNotSwizzled, kMapPromote128,
                                kMapZeros),
      "encoding a tensor map"));
  return std::bit_cast<TensorMap>(made);
}

}  // namespace xyntra::cuda
