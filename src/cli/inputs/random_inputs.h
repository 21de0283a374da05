// Random inputs from a seed: the same on every machine, and valid where the model uses them as indices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ir/graph.h"

namespace xyntra {

// Floats: normally distributed. Integers: below `bound` where there is one, else 0 or 1, and for i8, u8 and
// narrower all values. Depends on the seed and the input's name only.
Result<Tensor> random_tensor(DType dtype, const Dims& dims, std::uint64_t seed, std::string_view name,
                             std::optional<std::int64_t> bound, const std::shared_ptr<Budget>& budget);

}  // namespace xyntra
