// Element types. dtypes.def is the one table; everything about a dtype is looked up there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace xyntra {

enum class DType : std::uint8_t {
#define DTYPE(enumerator, spelling, bits, dtype_class, onnx) enumerator,
#include "types/dtypes.def"
#undef DTYPE
};

enum class DTypeClass : std::uint8_t { Float, Signed, Unsigned, Boolean, Text };

std::span<const DType> all_dtypes();                      // of numbers, in the order of the table
std::string_view name_of(DType dtype);                    // "f32"
std::optional<DType> dtype_named(std::string_view name);  // inverse of name_of
std::optional<DType> number_dtype_named(std::string_view name);  // what a kernel can hold
int bits_of(DType dtype);                                 // 32; 4 for i4
DTypeClass class_of(DType dtype);
int onnx_code_of(DType dtype);  // TensorProto.DataType
std::optional<DType> dtype_of_onnx_code(int code);

inline bool is_float(DType dtype) { return class_of(dtype) == DTypeClass::Float; }
// Strings never reach a kernel: whatever reads or makes them runs on the host.
inline bool is_string(DType dtype) { return dtype == DType::String; }
inline bool is_bool(DType dtype) { return dtype == DType::Bool; }
inline bool is_integer(DType dtype) {
  return class_of(dtype) == DTypeClass::Signed || class_of(dtype) == DTypeClass::Unsigned;
}
inline bool is_signed_integer(DType dtype) { return class_of(dtype) == DTypeClass::Signed; }

// The type in which arithmetic on `dtype` is done: f32 for the narrow floats, itself otherwise.
inline DType compute_type(DType dtype) { return is_float(dtype) && bits_of(dtype) < 32 ? DType::F32 : dtype; }

// Smallest and largest value of an integer dtype (0 and 1 for bool); unsigned, so that u64 fits.
std::int64_t lowest_integer(DType dtype);
std::uint64_t highest_integer(DType dtype);

}  // namespace xyntra
