#include "types/tensor_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/copy_bytes.h"
#include "support/limits/current_budget.h"
#include "support/limits/threads.h"

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
  to = to.first(count * kBytes);
  from = from.first(count == 0 ? 0 : ((count - 1) * stride + 1) * kBytes);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(&to[i * kBytes], &from[i * stride * kBytes], kBytes);
}

// Copies rows, which are runs along the innermost physical dimension.
class RowCopier {
 public:
  RowCopier(const Tensor& from, const Dims& to_dims, const Layout& layout)
      : extents_(from.dims()),
        from_(from.bytes()),
        bytes_(static_cast<std::size_t>(bits_of(from.dtype()) / 8)) {
    std::vector<std::int64_t> strides(extents_.size(), 1);
    for (std::size_t d = extents_.size(); d-- > 1;) strides[d - 1] = strides[d] * extents_[d];
    for (std::size_t d = 0; d < layout.size(); ++d) {
      const LayoutPart& part = layout[d];
      dims_.push_back({to_dims[d], part.divisor, part.axis, strides[part.axis] * part.divisor});
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

  // Where no element lies, bytes stay as they are.
  void copy(std::int64_t begin, std::int64_t end, std::span<std::byte> to) const {
    std::vector<std::int64_t> at(dims_.size()), index(extents_.size());
    std::int64_t offset = 0, rest = begin;
    for (std::size_t d = dims_.size(); d-- > 0;) {
      at[d] = rest % dims_[d].extent;
      rest /= dims_[d].extent;
      index[dims_[d].axis] += at[d] * dims_[d].divisor;
      offset += at[d] * dims_[d].stride;
    }
    for (std::int64_t row = begin; row < end; ++row) {
      copy_row(to.subspan(static_cast<std::size_t>((row - begin) * row_bytes())), offset, index);
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
  void copy_row(std::span<std::byte> to, std::int64_t offset, const std::vector<std::int64_t>& index) const {
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      if (index[axis] >= extents_[axis]) return;
    }
    const std::int64_t left = extents_[row_.axis] - index[row_.axis];
    const auto count =
        static_cast<std::size_t>(std::min(row_.extent, (left + row_.divisor - 1) / row_.divisor));
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
  std::size_t bytes_;  // of an element
};

Dims physical_dims(const Tensor& tensor, const Layout& layout) {
  Dims dims;
  for (const Dim& dim : physical_shape(layout, shape_of(tensor.dims()))) dims.push_back(dim.constant());
  return dims;
}

}  // namespace

Result<Tensor> laid_out(const Tensor& tensor, const Layout& layout, const std::shared_ptr<Budget>& budget) {
  require(bits_of(tensor.dtype()) >= 8, "laid_out: elements that share bytes");
  if (layout.empty()) return tensor;
  XYNTRA_TRY(Tensor made, Tensor::allocate(tensor.dtype(), physical_dims(tensor, layout), budget));
  if (made.count() == 0) return made;
  const RowCopier copier(tensor, made.dims(), layout);
  const std::span<std::byte> bytes = made.mutable_bytes();
  const std::int64_t grain =
      std::max<std::int64_t>(1, kChunkBytes / std::max<std::int64_t>(1, copier.row_bytes()));
  ThreadPool::shared().parallel_for(0, copier.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    poll_limits(100);
    copier.copy(begin, end, bytes.subspan(static_cast<std::size_t>(begin * copier.row_bytes())));
  });
  return made;
}

PackedTensor::PackedTensor(Tensor tensor, Layout layout)
    : tensor_(std::move(tensor)),
      layout_(std::move(layout)),
      dims_(layout_.empty() ? tensor_.dims() : physical_dims(tensor_, layout_)),
      bytes_(tensor_.bytes().size()) {
  if (layout_.empty()) return;
  require(bits_of(dtype()) >= 8, "PackedTensor: elements that share bytes");
  bytes_ = static_cast<std::size_t>(bits_of(dtype()) / 8);
  for (std::int64_t dim : dims_) bytes_ *= static_cast<std::size_t>(dim);
}

void PackedTensor::copy(std::size_t offset, std::span<std::byte> to) const {
  if (layout_.empty()) {
    copy_bytes(tensor_.bytes().subspan(offset, to.size()), to);
    return;
  }
  if (to.empty()) return;
  const RowCopier copier(tensor_, dims_, layout_);
  if (bytes_ != tensor_.bytes().size()) std::ranges::fill(to, std::byte{});
  const auto row_bytes = static_cast<std::size_t>(copier.row_bytes());
  std::vector<std::byte> partial;  // a row of which `to` has a part
  while (!to.empty()) {
    const std::size_t row = offset / row_bytes, skipped = offset % row_bytes;
    std::size_t rows = skipped == 0 ? to.size() / row_bytes : 0, taken = rows * row_bytes;
    if (rows > 0) {
      copier.copy(static_cast<std::int64_t>(row), static_cast<std::int64_t>(row + rows), to.first(taken));
    } else {
      partial.assign(row_bytes, std::byte{});
      copier.copy(static_cast<std::int64_t>(row), static_cast<std::int64_t>(row + 1), partial);
      taken = std::min(to.size(), row_bytes - skipped);
      copy_bytes(std::span(partial).subspan(skipped, taken), to);
    }
    offset += taken;
    to = to.subspan(taken);
  }
}

bool PackedTensor::has_same_source(const PackedTensor& other) const {
  return tensor_.bytes().data() == other.tensor_.bytes().data() && dtype() == other.dtype() &&
         tensor_.dims() == other.tensor_.dims() && layout_ == other.layout_;
}

}  // namespace xyntra
