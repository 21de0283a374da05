#include "types/tensor_layout.h"

#include <algorithm>
#include <cstring>

#include "support/current_budget.h"
#include "support/threads.h"

namespace xyntra {
namespace {

constexpr std::int64_t kChunkBytes = 256 << 10;

// A physical dimension. One step along it is `divisor` steps along its logical axis.
struct PhysicalDim {
  std::int64_t extent = 1, divisor = 1;
  std::size_t axis = 0;
  std::int64_t stride = 0;  // of one step, in elements of the row-major tensor
};

template <std::size_t kBytes>
void copy_strided(std::span<std::byte> to, std::span<const std::byte> from, std::size_t stride,
                  std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to.subspan(i * kBytes, kBytes).data(), from.subspan(i * stride * kBytes, kBytes).data(),
                kBytes);
}

// Copies rows, which are runs along the innermost physical dimension.
class RowCopier {
 public:
  RowCopier(const Tensor& from, Tensor& to, const Layout& layout)
      : extents_(from.dims()),
        from_(from.bytes()),
        to_(to.mutable_bytes()),
        bytes_(static_cast<std::size_t>(bits_of(from.dtype()) / 8)) {
    std::vector<std::int64_t> strides(extents_.size(), 1);
    for (std::size_t d = extents_.size(); d-- > 1;) strides[d - 1] = strides[d] * extents_[d];
    for (std::size_t d = 0; d < layout.size(); ++d) {
      const LayoutPart& part = layout[d];
      dims_.push_back({to.dims()[d], part.divisor, part.axis, strides[part.axis] * part.divisor});
    }
    row_ = dims_.back();
    dims_.pop_back();
  }

  std::int64_t rows() const {
    std::int64_t count = 1;
    for (const PhysicalDim& dim : dims_) count *= dim.extent;
    return count;
  }
  std::int64_t row_bytes() const { return row_.extent * static_cast<std::int64_t>(bytes_); }

  void copy(std::int64_t begin, std::int64_t end) const {
    std::vector<std::int64_t> at(dims_.size()), index(extents_.size());
    std::int64_t offset = 0, rest = begin;
    for (std::size_t d = dims_.size(); d-- > 0;) {
      at[d] = rest % dims_[d].extent;
      rest /= dims_[d].extent;
      index[dims_[d].axis] += at[d] * dims_[d].divisor;
      offset += at[d] * dims_[d].stride;
    }
    for (std::int64_t row = begin; row < end; ++row) {
      copy_row(row, offset, index);
      for (std::size_t d = dims_.size(); d-- > 0;) {
        const PhysicalDim& dim = dims_[d];
        const std::int64_t steps = at[d] + 1 == dim.extent ? -at[d] : 1;
        at[d] += steps;
        index[dim.axis] += steps * dim.divisor;
        offset += steps * dim.stride;
        if (at[d] != 0) break;
      }
    }
  }

 private:
  void copy_row(std::int64_t row, std::int64_t offset, const std::vector<std::int64_t>& index) const {
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      if (index[axis] >= extents_[axis]) return;
    }
    const std::int64_t left = extents_[row_.axis] - index[row_.axis];
    const auto count =
        static_cast<std::size_t>(std::min(row_.extent, (left + row_.divisor - 1) / row_.divisor));
    const auto to = to_.subspan(static_cast<std::size_t>(row * row_bytes()));
    const auto from = from_.subspan(static_cast<std::size_t>(offset) * bytes_);
    const auto stride = static_cast<std::size_t>(row_.stride);
    if (stride == 1) {
      std::memcpy(to.data(), from.data(), count * bytes_);
      return;
    }
    switch (bytes_) {
      case 1: return copy_strided<1>(to, from, stride, count);
      case 2: return copy_strided<2>(to, from, stride, count);
      case 4: return copy_strided<4>(to, from, stride, count);
      default: return copy_strided<8>(to, from, stride, count);
    }
  }

  std::vector<std::int64_t> extents_;  // logical
  std::vector<PhysicalDim> dims_;  // outermost first, without the row
  PhysicalDim row_;
  std::span<const std::byte> from_;
  std::span<std::byte> to_;
  std::size_t bytes_;  // of an element
};

}  // namespace

Result<Tensor> laid_out(const Tensor& tensor, const Layout& layout, const std::shared_ptr<Budget>& budget) {
  require(bits_of(tensor.dtype()) >= 8, "laid_out: elements that share bytes");
  if (layout.empty()) return tensor;
  Dims dims;
  for (const Dim& dim : physical_shape(layout, shape_of(tensor.dims()))) dims.push_back(dim.constant());
  XYNTRA_TRY(Tensor made, Tensor::allocate(tensor.dtype(), std::move(dims), budget));
  if (made.count() == 0) return made;
  const RowCopier copier(tensor, made, layout);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kChunkBytes / std::max<std::int64_t>(1, copier.row_bytes()));
  ThreadPool::shared().parallel_for(0, copier.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    poll_limits(100);
    copier.copy(begin, end);
  });
  return made;
}

}  // namespace xyntra
