// Elements of constants as text, exactly: what is read back has the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "types/tensor.h"

namespace xyntra {

// 1.5, -0.0, inf, 7, true; 0x7fc00001 where no decimal says it: NaNs with a payload, a bool that is neither.
std::string element_text(const Tensor& tensor, std::int64_t index);
// False when the text is no element of this dtype, or out of its range. Decimals of floats are rounded.
bool set_element_text(Tensor& tensor, std::int64_t index, std::string_view text);

// The same for a float by itself, as attributes have them.
std::string float_text(float value);
std::optional<float> parse_float_text(std::string_view text);

// Bits that no element uses, at the end of a packed tensor, are zero.
bool padding_is_zero(const Tensor& tensor);

}  // namespace xyntra
