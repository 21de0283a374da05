// Cast between strings and numbers.
#include <array>
#include <charconv>
#include <cmath>

#include "ops/strings/host_strings.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

// As ONNX writes them, with the eight digits that ONNX Runtime gives any float.
std::string float_as_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, 8);
  return {text.begin(), end.ptr};
}

std::string number_as_text(const Tensor& x, std::int64_t index) {
  if (is_float(x.dtype())) return float_as_text(x.element_as_f64(index));
  const std::int64_t value = x.element_as_i64(index);
  return is_signed_integer(x.dtype()) ? std::to_string(value)
                                      : std::to_string(static_cast<std::uint64_t>(value));
}

// The whole text but white space around it. A fraction becomes an integer towards zero.
bool set_number(Tensor& y, std::int64_t index, std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto whole = parse_i64(text);
  const auto wide = parse_u64(text);
  const auto real = parse_f64(text);
  if (is_float(y.dtype())) {
    if (real) y.set_element_f64(index, *real);
    return real.has_value();
  }
  if (is_bool(y.dtype())) {
    if (real) y.set_element_i64(index, *real != 0 ? 1 : 0);
    return real.has_value();
  }
  if (whole || wide) {
    y.set_element_i64(index, whole ? *whole : static_cast<std::int64_t>(*wide));
    return true;
  }
  const bool fits = real && *real > -0x1p63 && *real < 0x1p63;
  if (fits) y.set_element_i64(index, static_cast<std::int64_t>(*real));
  return fits;
}

}  // namespace

namespace host {

Status cast_strings(HostContext& c) {
  const Tensor& x = c.input(0);
  DType to = DType::String;
  if (c.def().name == "CastLike") {
    to = c.dtype(1);
  } else if (const auto code = dtype_of_onnx_code(static_cast<int>(c.integer("to")))) {
    to = *code;
  }
  if (is_string(to) && is_string(x.dtype())) {
    c.set_result(0, x);
    return {};
  }
  if (is_string(to)) {
    StringList made(c);
    for (std::int64_t i = 0; i < x.count(); ++i) XYNTRA_CHECK_OK(made.add(number_as_text(x, i)));
    return made.give(0, x.dims());
  }
  XYNTRA_TRY(Tensor y, c.allocate(to, x.dims()));
  for (std::int64_t i = 0; i < x.count(); ++i) {
    XYNTRA_CHECK_OK(c.worked(1));
    if (set_number(y, i, x.string_at(i))) continue;
    return c.fail("the string " + quote(cut_at_character(x.string_at(i), 64)) + " is no " +
                  std::string(name_of(to)));
  }
  c.set_result(0, std::move(y));
  return {};
}

}  // namespace host
}  // namespace xyntra
