#include "graphs/accuracy.h"

#include <algorithm>
#include <cmath>

namespace xyntra::graphs {
namespace {

constexpr double kMoreThanMoved = 16;  // an operation inside moves a result as far as a few inputs would

struct Format {
  int digits;  // of the significand
  int lowest;  // exponent of the smallest denormal
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return {53, -1074};
    case DType::F16: return {11, -24};
    case DType::BF16: return {8, -133};
    default: return {24, -149};
  }
}

std::string text_of(double value) {
  std::string text(32, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.17g", value)));
  return text;
}

}  // namespace

double ulp(DType dtype, double value) {
  Format format = format_of(dtype);
  int exponent = value == 0 || !std::isfinite(value) ? format.lowest : std::ilogb(value) - format.digits + 1;
  return std::ldexp(1.0, std::max(exponent, format.lowest));
}

std::optional<std::string> too_far(const Tensor& actual, const Measured& expected) {
  const Tensor& reference = expected.reference;
  if (actual.dtype() != reference.dtype() || actual.dims() != reference.dims())
    return "another dtype or shape";
  auto at = [](std::int64_t i) { return "element " + std::to_string(i) + ": "; };
  if (!is_float(actual.dtype())) {
    for (std::int64_t i = 0; i < actual.count(); ++i) {
      if (actual.element_as_i64(i) != reference.element_as_i64(i))
        return at(i) + std::to_string(actual.element_as_i64(i)) + ", expected " +
               std::to_string(reference.element_as_i64(i));
    }
    return std::nullopt;
  }
  double worst_ulps = 0, worst = 0;  // of the unfused graph
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    double error = std::fabs(reference.element_as_f64(i) - expected.oracle.element_as_f64(i));
    if (std::isfinite(error)) worst = std::max(worst, error);
    if (std::isfinite(error))
      worst_ulps = std::max(worst_ulps, error / ulp(actual.dtype(), expected.oracle.element_as_f64(i)));
  }
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    double is = actual.element_as_f64(i), was = reference.element_as_f64(i),
           true_value = expected.oracle.element_as_f64(i);
    // Where sums or products on the way are beyond the format, one order meets inf - inf, another an infinity, a
    // third the number.
    const bool was_beyond = std::isnan(was) && !std::isnan(true_value);
    if (was_beyond && std::isinf(is)) continue;
    if (std::isnan(is) != std::isnan(was) && !was_beyond)
      return at(i) + text_of(is) + ", the unfused graph gives " + text_of(was) + ", in float64 " +
             text_of(true_value);
    if (is == was || std::isnan(is) || !std::isfinite(true_value)) continue;
    if (!std::isfinite(was) && !was_beyond) continue;
    double allowed = (2 * worst_ulps + 4) * ulp(actual.dtype(), true_value);
    double farthest = 0;
    for (const Tensor& moved : expected.moved)
      farthest = std::max(farthest, std::fabs(moved.element_as_f64(i) - true_value));
    if (!expected.moved.empty()) allowed += 2 * worst + kMoreThanMoved * farthest;
    if (!(std::fabs(is - true_value) <= allowed)) {
      return at(i) + text_of(is) + ", in float64 " + text_of(true_value) + ", the unfused graph gives " +
             text_of(was);
    }
  }
  return std::nullopt;
}

}  // namespace xyntra::graphs
