#include "verify/compare.h"

#include <cmath>

#include "ir/text_literals.h"
#include "ir/type.h"

namespace xyntra {
namespace {

std::string type_text(const Tensor& tensor) {
  return Type::tensor(tensor.dtype(), shape_of(tensor.dims())).to_string();
}

bool close(double actual, double expected, const Tolerance& tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) || std::isinf(expected)) return actual == expected;
  return std::fabs(actual - expected) <= tolerance.absolute + tolerance.relative * std::fabs(expected);
}

std::string position_text(std::int64_t index, const Dims& dims) {
  std::string text;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    text = std::to_string(index % dims[axis]) + (text.empty() ? "" : ", ") + text;
    index /= dims[axis];
  }
  return "[" + text + "]";
}

const char* kind_text(Datum::Kind kind) {
  switch (kind) {
    case Datum::Kind::Absent: return "nothing";
    case Datum::Kind::Tensor: return "a tensor";
    case Datum::Kind::Sequence: return "a sequence";
    case Datum::Kind::Optional: return "an optional";
  }
  return "nothing";
}

}  // namespace

std::optional<std::string> difference(const Tensor& actual, const Tensor& expected,
                                      const Tolerance& tolerance) {
  if (actual.dtype() != expected.dtype() || actual.dims() != expected.dims()) {
    return type_text(actual) + ", expected " + type_text(expected);
  }
  const bool exact = !is_float(actual.dtype());
  std::int64_t differing = 0, first = 0;
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    const bool same = is_string(actual.dtype()) ? actual.string_at(i) == expected.string_at(i)
                      : exact                   ? actual.element_as_i64(i) == expected.element_as_i64(i)
                              : close(actual.element_as_f64(i), expected.element_as_f64(i), tolerance);
    if (same) continue;
    if (differing++ == 0) first = i;
  }
  if (differing == 0) return std::nullopt;
  return type_text(actual) + ": " + std::to_string(differing) + " of " + std::to_string(actual.count()) +
         " elements differ, the first at " + position_text(first, actual.dims()) + ": " +
         element_text(actual, first) + ", expected " + element_text(expected, first);
}

std::optional<std::string> difference(const Datum& actual, const Datum& expected,
                                      const Tolerance& tolerance) {
  if (actual.kind != expected.kind) {
    return std::string(kind_text(actual.kind)) + ", expected " + kind_text(expected.kind);
  }
  if (actual.kind == Datum::Kind::Tensor) return difference(actual.tensor, expected.tensor, tolerance);
  if (actual.items.size() != expected.items.size()) {
    return std::to_string(actual.items.size()) + " elements, expected " +
           std::to_string(expected.items.size());
  }
  for (std::size_t i = 0; i < actual.items.size(); ++i) {
    auto inner = difference(actual.items[i], expected.items[i], tolerance);
    if (inner) return "element " + std::to_string(i) + ": " + *inner;
  }
  return std::nullopt;
}

}  // namespace xyntra
