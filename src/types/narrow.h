// Long runs of f32 rounded to f16 or bf16, as Cast rounds them: what weights go through where a precision is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "types/dtype.h"

namespace xyntra {

// The bits that f32_to_f16() and f32_to_bf16() give, many elements at once. `to` is F16 or BF16.
void narrow(std::span<const float> from, DType to, std::span<std::uint16_t> result);
// The same of bytes, which may lie anywhere.
void narrow(std::span<const std::byte> from, DType to, std::span<std::uint16_t> result);

}  // namespace xyntra
