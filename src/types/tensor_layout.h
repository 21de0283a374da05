// Contents of tensors in other layouts than row-major: what packs weights.
#pragma once

#include "types/layout.h"
#include "types/tensor.h"

namespace xyntra {

// The elements where the layout has them: a tensor of the physical shape, zeros where no element lies. The bytes given need not
// be aligned; elements have whole bytes.
Result<Tensor> laid_out(const Tensor& tensor, const Layout& layout,
                        const std::shared_ptr<Budget>& budget = nullptr);

}  // namespace xyntra
