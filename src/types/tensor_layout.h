// Contents of tensors in other layouts than row-major: what packs weights.
#pragma once

#include "types/layout.h"
#include "types/tensor.h"

namespace xyntra {

// The elements where the layout has them: a tensor of the physical shape, zeros where no element lies. The bytes given need not
// be aligned; elements have whole bytes.
Result<Tensor> laid_out(const Tensor& tensor, const Layout& layout,
                        const std::shared_ptr<Budget>& budget = nullptr);

// The same, made part by part, for who writes it and needs it nowhere in memory as a whole.
class PackedTensor {
 public:
  PackedTensor(Tensor tensor, Layout layout);  // without a layout: the tensor as it is

  DType dtype() const { return tensor_.dtype(); }
  const Dims& dims() const { return dims_; }  // physical
  std::size_t bytes() const { return bytes_; }
  void copy(std::size_t offset, std::span<std::byte> to) const;  // what begins there
  bool has_same_source(const PackedTensor& other) const;  // and so the same bytes

 private:
  Tensor tensor_;
  Layout layout_;
  Dims dims_;
  std::size_t bytes_ = 0;
};

}  // namespace xyntra
