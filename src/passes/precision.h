// What a plan may do to the digits of products, beyond adding in another order.
#pragma once

#include <cstdint>
#include <string_view>

#include "support/result.h"

namespace xyntra {

enum class Precision : std::uint8_t {
  F32,  // nothing
  Bf16,  // factors of f32 products are rounded to it: passes/round_products.h
  F16,  // the same with three more bits and a largest number of 65504
  Tf32,  // factors of f32 products are rounded to it where matrix units read them: schedule/contraction/warp_units.h
  Bf16x3,  // f32 products of three bf16 for each factor: schedule/contraction/part_products.h
  Winograd  // windows of 3 × 3 with fewer multiplications: schedule/convolution/winograd.h
};
const char* name_of(Precision precision);  // "bf16"
Result<Precision> precision_named(std::string_view name);  // Usage error with all names

}  // namespace xyntra
