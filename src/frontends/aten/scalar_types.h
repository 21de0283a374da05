// torch's dtypes as its code numbers them (c10::ScalarType: 6 is float32), and the classes of storages that hold them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "types/dtype.h"

namespace xyntra::aten {

std::optional<DType> dtype_of_scalar_type(std::int64_t code);
std::int64_t scalar_type_of(DType dtype);  // -1: torch has no such dtype
std::optional<DType> dtype_of_storage_class(std::string_view name);  // "FloatStorage"

}  // namespace xyntra::aten
