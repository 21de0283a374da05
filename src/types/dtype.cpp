#include "types/dtype.h"

#include <array>

#include "support/result.h"

namespace xyntra {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
  DTypeClass dtype_class;
  int onnx_code;
};

constexpr auto kDTypes = std::to_array<DTypeRow>({
#define DTYPE(enumerator, spelling, bits, dtype_class, onnx) {spelling, bits, DTypeClass::dtype_class, onnx},
#include "types/dtypes.def"
#undef DTYPE
});

constexpr auto kAllDTypes = std::to_array<DType>({
#define DTYPE(enumerator, spelling, bits, dtype_class, onnx) DType::enumerator,
#include "types/dtypes.def"
#undef DTYPE
});

const DTypeRow& row_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  if (index >= kDTypes.size()) internal_error("DType out of range");
  return kDTypes[index];
}

}  // namespace

static_assert(kAllDTypes.back() == DType::String, "strings are the last row, behind all numbers");
std::span<const DType> all_dtypes() { return std::span(kAllDTypes).first(kAllDTypes.size() - 1); }

std::string_view name_of(DType dtype) { return row_of(dtype).name; }
int bits_of(DType dtype) { return row_of(dtype).bits; }
DTypeClass class_of(DType dtype) { return row_of(dtype).dtype_class; }
int onnx_code_of(DType dtype) { return row_of(dtype).onnx_code; }

std::optional<DType> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> number_dtype_named(std::string_view name) {
  const auto found = dtype_named(name);
  return found && is_string(*found) ? std::nullopt : found;
}

std::optional<DType> dtype_of_onnx_code(int code) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].onnx_code == code) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::int64_t lowest_integer(DType dtype) {
  require(is_integer(dtype) || is_bool(dtype), "lowest_integer: not an integer dtype");
  return is_signed_integer(dtype) ? INT64_MIN >> (64 - bits_of(dtype)) : 0;
}

std::uint64_t highest_integer(DType dtype) {
  require(is_integer(dtype) || is_bool(dtype), "highest_integer: not an integer dtype");
  if (is_bool(dtype)) return 1;
  return UINT64_MAX >> (64 - bits_of(dtype) + (is_signed_integer(dtype) ? 1 : 0));
}

}  // namespace xyntra
