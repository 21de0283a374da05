// Tensors out of nothing, and casts.
#include <algorithm>
#include <limits>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

DType kind_of(const Number& number) {
  constexpr DType kNumbers[] = {DType::Bool, DType::I64, DType::F32};
  return kNumbers[static_cast<std::size_t>(number.kind)];
}

ValueId filled(Call& c, const Sizes& sizes, const Number& value, DType dtype) {
  const ValueId scalar = c.as_value(value, dtype);
  return sizes.empty() ? scalar : c.expand(scalar, sizes);
}

DType dtype_or(Call& c, DType otherwise) {
  return c.has("dtype") ? c.dtype("dtype").value_or(otherwise) : otherwise;
}

// The value that the row names, or that the call gives.
Number value_of(Call& c) {
  const std::string_view detail = c.detail();
  if (detail == "0") return whole(0);
  if (detail == "1") return whole(1);
  return c.number(c.has("fill_value") ? "fill_value" : "value");
}

}  // namespace

Item full(Call& c) {
  const Number value = value_of(c);
  const bool given = c.has("fill_value");
  return filled(c, c.sizes("size"), value, dtype_or(c, given ? kind_of(value) : DType::F32));
}

// zeros_like, full_like, new_zeros, fill: detail is the value where the schema has none.
Item full_like(Call& c) {
  const ValueId x = c.tensor("self");
  const Sizes sizes = c.has("size") ? c.sizes("size") : c.shape_numbers(x);
  return filled(c, sizes, value_of(c), dtype_or(c, c.dtype_of(x)));
}

Item scalar_tensor(Call& c) {
  const Number value = c.number(c.has("s") ? "s" : "t");
  return c.as_value(value, dtype_or(c, kind_of(value)));
}

Item arange(Call& c) {
  const Number start = c.has("start") ? c.number("start") : whole(0), end = c.number("end");
  const Number step = c.has("step") ? c.number("step") : whole(1);
  const auto is_float_number = [](const Number& n) { return n.kind == NumberKind::Float; };
  const bool real = is_float_number(start) || is_float_number(end) || is_float_number(step);
  const DType dtype = dtype_or(c, real ? DType::F32 : DType::I64);
  if (!real) {
    const ValueId range = c.op(
        "Range", {c.as_value(start, DType::I64), c.as_value(end, DType::I64), c.as_value(step, DType::I64)});
    return c.cast(range, dtype);
  }
  // The number of elements is that of float64; each is start + i * step.
  const auto wide = [&](const Number& n) { return c.as_value(n, DType::F64); };
  const ValueId count = c.cast(c.op("Ceil", {c.div(c.sub(wide(end), wide(start)), wide(step))}), DType::I64);
  const ValueId index =
      c.op("Range", {c.whole_value(DType::I64, 0), c.op("Max", {count, c.whole_value(DType::I64, 0)}),
                     c.whole_value(DType::I64, 1)});
  const DType computed = is_float(dtype) && bits_of(dtype) < 32 ? DType::F32
                         : dtype == DType::F64                  ? DType::F64
                         : is_float(dtype)                      ? dtype
                                                                : DType::F64;
  const ValueId y =
      c.add(c.as_value(start, computed), c.mul(c.cast(index, computed), c.as_value(step, computed)));
  return c.cast(y, dtype);
}

// From both ends, so that the last one is exact.
Item linspace(Call& c) {
  const Number start = c.number("start"), end = c.number("end");
  const DType dtype = dtype_or(c, DType::F32);
  const std::int64_t steps = c.integer("steps");
  constexpr std::int64_t kMostSteps = 1 << 20;
  if (!is_float(dtype) || steps < 0 || steps > kMostSteps || !start.is_known() || !end.is_known())
    return c.unsupported("linspace of whole numbers, of open ends or of more than 2^20 steps");
  auto tensor = Tensor::allocate(dtype, {steps});
  if (!tensor) return c.fail(tl::unexpected<Error>(tensor.error()));
  const bool single = bits_of(dtype) <= 32;
  const double step = steps > 1 ? (end.real() - start.real()) / static_cast<double>(steps - 1) : 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const bool lower = i < steps / 2;
    const double n = static_cast<double>(lower ? i : steps - 1 - i);
    const auto from_start = [&](auto a, auto d, auto k) { return a + d * k; };
    double value = 0;
    if (single) {
      const auto s = (static_cast<float>(end.real()) - static_cast<float>(start.real())) /
                     static_cast<float>(std::max<std::int64_t>(steps - 1, 1));
      value = lower ? from_start(static_cast<float>(start.real()), s, static_cast<float>(n))
                    : from_start(static_cast<float>(end.real()), -s, static_cast<float>(n));
    } else {
      value = lower ? from_start(start.real(), step, n) : from_start(end.real(), -step, n);
    }
    if (steps == 1) value = start.real();
    tensor->set_element_f64(i, value);
  }
  return c.constant(std::move(*tensor));
}

Item eye(Call& c) {
  const Number rows = c.number("n"), columns = c.has("m") ? c.number("m") : rows;
  const DType dtype = dtype_or(c, DType::F32);
  const ValueId like = c.expand(c.whole_value(dtype, 0), {rows, columns});
  return c.op("EyeLike", {like}, {{"dtype", onnx_code(dtype)}});
}

// ---- casts

namespace {

// A cast as C does it: floats towards zero; what is out of range is open.
Item as_dtype(Call& c, std::string_view argument, DType dtype, bool copy) {
  const ValueId x = c.tensor(argument);
  if (c.dtype_of(x) == dtype) return copy ? Item(x) : c.same(argument);
  return c.cast(x, dtype);
}

bool copies(Call& c) { return c.has("copy") && c.flag("copy"); }

}  // namespace

Item to_copy(Call& c) {
  const ValueId x = c.tensor("self");
  return c.cast(x, dtype_or(c, c.dtype_of(x)));
}

Item to(Call& c) {
  const ValueId x = c.tensor("self");
  return as_dtype(c, "self", dtype_or(c, c.dtype_of(x)), copies(c));
}

Item to_other(Call& c) { return as_dtype(c, "self", c.dtype_of(c.tensor("other")), copies(c)); }

// x.float(), x.long(): detail is the dtype.
Item to_named(Call& c) {
  const auto dtype = dtype_named(c.detail());
  require(dtype.has_value(), "aten.def names a dtype that is none");
  return as_dtype(c, "self", *dtype, false);
}

// Values of src in the place of self.
Item copy(Call& c) {
  const ValueId x = c.tensor("self"), y = c.cast(c.tensor("src"), c.dtype_of(x));
  return c.expand(y, c.shape_numbers(x));
}

}  // namespace xyntra::aten
