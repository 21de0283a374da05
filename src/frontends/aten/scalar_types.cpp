#include "frontends/aten/scalar_types.h"

namespace xyntra::aten {
namespace {

struct ScalarType {
  DType dtype;
  std::int64_t code;
  std::string_view storage;
};
constexpr ScalarType kScalarTypes[] = {
#define SCALAR_TYPE(ours, code, storage) {DType::ours, code, storage},
#include "frontends/aten/scalar_types.def"
#undef SCALAR_TYPE
};

}  // namespace

std::optional<DType> dtype_of_scalar_type(std::int64_t code) {
  for (const ScalarType& one : kScalarTypes) {
    if (one.code == code) return one.dtype;
  }
  return std::nullopt;
}

std::int64_t scalar_type_of(DType dtype) {
  for (const ScalarType& one : kScalarTypes) {
    if (one.dtype == dtype) return one.code;
  }
  return -1;
}

std::optional<DType> dtype_of_storage_class(std::string_view name) {
  for (const ScalarType& one : kScalarTypes) {
    if (one.storage == name) return one.dtype;
  }
  return std::nullopt;
}

}  // namespace xyntra::aten
