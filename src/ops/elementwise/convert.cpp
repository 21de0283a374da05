// Conversions of dtype: Cast, CastLike, BitCast.
#include <array>

#include "ops/elementwise/elementwise.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::CastMode;
using te::Expr;

Result<DType> dtype_attribute(const OpContext& c, std::string_view name, bool strings) {
  std::int64_t code = c.integer(name);
  auto dtype = code >= 0 && code < INT32_MAX ? dtype_of_onnx_code(static_cast<int>(code)) : std::nullopt;
  if (!dtype || (is_string(*dtype) && !strings)) {
    return c.unsupported("attribute '" + std::string(name) + "' = " + std::to_string(code) +
                         " names no dtype that is supported");
  }
  return *dtype;
}

namespace {

Result<CastMode> cast_mode(const OpContext& c) {
  constexpr std::array<std::string_view, 3> kModes = {"nearest", "up", "down"};
  CastMode mode;
  mode.saturate = c.flag("saturate");
  for (std::uint8_t i = 0; i < 3; ++i) {
    if (c.text("round_mode") != kModes[i]) continue;
    mode.scale_rounding = i;
    return mode;
  }
  return c.fail("round_mode must be nearest, up or down, not '" + c.text("round_mode") + "'");
}

// Contents that are known stay known from integer to integer, as long as they fit.
void convert_elements(InferenceContext& c) {
  DType from = c.dtype(0), to = c.output_type(0).dtype;
  auto elements = c.elements(0);
  if (!elements || is_float(from) || is_float(to) || is_string(from) || is_string(to)) return;
  for (Dim& element : *elements) {
    if (is_bool(to)) {
      if (!element.is_constant()) return;
      element = element.is(0) ? 0 : 1;
    }
    if (!fits(to, element)) return;
  }
  c.set_elements(0, std::move(*elements));
}

}  // namespace

namespace rule {

Status cast(InferenceContext& c) {
  XYNTRA_TRY(DType to, dtype_attribute(c, "to", /*strings=*/true));
  c.set_dtype(0, to);
  c.set_shape(0, c.shape(0));
  convert_elements(c);
  return {};
}

Status cast_like(InferenceContext& c) {
  c.set_shape(0, c.shape(0));
  convert_elements(c);
  return {};
}

Status bit_cast(InferenceContext& c) {
  XYNTRA_TRY(DType to, dtype_attribute(c, "to"));
  if (bits_of(to) != bits_of(c.dtype(0))) {
    return c.fail(std::string(name_of(c.dtype(0))) + " and " + std::string(name_of(to)) + " differ in width");
  }
  c.set_dtype(0, to);
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {

Status cast(FormulaContext& c) {
  XYNTRA_TRY(CastMode mode, cast_mode(c));
  Axes i = c.axes(c.out_shape());
  Expr x = c.in(0)(i);
  // What a float beyond the range becomes is left open by ONNX; its data, numpy and ONNX Runtime take the low
  // bits of a wider integer.
  DType to = c.out_dtype();
  if (is_float(x.dtype()) && is_integer(to) && bits_of(to) < 32) x = te::cast(DType::I32, x);
  if (is_float(x.dtype()) && to == DType::U32) x = te::cast(DType::I64, x);
  c.write(c.out(), i, te::cast(to, x, mode));
  return {};
}

Status bit_cast(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  c.write(c.out(), i, te::bitcast(c.out_dtype(), c.in(0)(i)));
  return {};
}

}  // namespace formula
}  // namespace xyntra
