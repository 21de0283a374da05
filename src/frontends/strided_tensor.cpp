#include "frontends/strided_tensor.h"

#include <algorithm>

namespace xyntra {
namespace {

constexpr std::int64_t kMostStridedElements = std::int64_t{1} << 48;

bool is_dense(const StridedView& view) {
  std::int64_t expected = 1;
  for (std::size_t i = view.sizes.size(); i-- > 0;) {
    if (view.sizes[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.sizes[i];
  }
  return true;
}

// The last element that the view reaches, or an error where the numbers make no sense.
Result<std::int64_t> last_element(const StridedView& view) {
  std::int64_t last = view.offset;
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.strides[i] < 0 || view.strides[i] > kMostStridedElements)
      return bad_model("a stride of " + std::to_string(view.strides[i]));
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(view.sizes[i] - 1, view.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return bad_model("its strides overflow");
  }
  return last;
}

Status check_booleans(const Tensor& tensor) {
  if (!is_bool(tensor.dtype())) return {};
  const auto is_boolean = [](std::byte byte) { return byte <= std::byte{1}; };
  return std::ranges::all_of(tensor.bytes(), is_boolean)
             ? Status()
             : bad_model("it is boolean but holds a byte other than 0 and 1");
}

// Row by row of the last axis, counting the others like an odometer.
Result<Tensor> gathered(const StridedView& view, std::span<const std::byte> storage) {
  XYNTRA_TRY(Tensor tensor, Tensor::allocate(view.dtype, view.sizes));
  const auto width = static_cast<std::size_t>(bits_of(view.dtype) / 8);
  const std::size_t rank = view.sizes.size();
  std::span<std::byte> target = tensor.mutable_bytes();
  Dims position(rank, 0);
  std::int64_t at = view.offset;
  while (!target.empty()) {
    std::ranges::copy(storage.subspan(static_cast<std::size_t>(at) * width, width), target.begin());
    target = target.subspan(width);
    for (std::size_t axis = rank; axis-- > 0;) {
      at += view.strides[axis];
      if (++position[axis] < view.sizes[axis]) break;
      at -= view.strides[axis] * view.sizes[axis];
      position[axis] = 0;
    }
  }
  return tensor;
}

}  // namespace

Result<Tensor> strided_tensor(const StridedView& view, std::span<const std::byte> storage,
                              const std::shared_ptr<const void>& owner) {
  if (bits_of(view.dtype) < 8) return unsupported("a tensor of elements narrower than a byte");
  if (view.sizes.size() != view.strides.size())
    return bad_model("it has another number of strides than of sizes");
  if (view.offset < 0 || std::ranges::any_of(view.sizes, [](std::int64_t size) { return size < 0; }))
    return bad_model("a negative size or offset");
  XYNTRA_TRY(const std::int64_t bytes, byte_size(view.dtype, view.sizes));
  if (bytes == 0) return Tensor::allocate(view.dtype, view.sizes);
  const std::int64_t width = bits_of(view.dtype) / 8,
                     held = static_cast<std::int64_t>(storage.size()) / width;
  XYNTRA_TRY(const std::int64_t last, last_element(view));
  if (last >= held) {
    return bad_model("it reaches element " + std::to_string(last) + " of a storage of " +
                     std::to_string(held));
  }
  if (is_dense(view)) {
    const auto start = static_cast<std::size_t>(view.offset * width);
    XYNTRA_TRY(Tensor tensor, Tensor::borrow(view.dtype, view.sizes,
                                             storage.subspan(start, static_cast<std::size_t>(bytes)), owner));
    XYNTRA_CHECK_OK(check_booleans(tensor));
    return tensor;
  }
  constexpr std::int64_t kFree = 16'000'000;  // an expanded view may be larger than what it shows
  if (bytes > static_cast<std::int64_t>(storage.size()) && bytes > kFree)
    return limit_error("an expanded tensor of " + std::to_string(bytes) + " bytes over a storage of " +
                       std::to_string(storage.size()));
  XYNTRA_TRY(Tensor tensor, gathered(view, storage));
  XYNTRA_CHECK_OK(check_booleans(tensor));
  return tensor;
}

}  // namespace xyntra
