// The conditions that guards of rules are made of.
#include <algorithm>
#include <array>
#include <cmath>

#include "rewrite/normalize/fold.h"
#include "rewrite/rules/functions.h"

namespace xyntra {

std::optional<std::vector<std::int64_t>> integers_of(const Argument& argument) {
  if (argument.attribute != nullptr) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(argument.attribute)) return *list;
    if (const auto* one = std::get_if<std::int64_t>(argument.attribute)) return std::vector{*one};
    return std::nullopt;
  }
  if (!argument.facts->is_tensor() || !argument.facts->contents().defined()) return std::nullopt;
  if (!is_integer(argument.facts->dtype())) return std::nullopt;
  return argument.facts->contents().to_integers();
}

std::optional<std::int64_t> integer_of(const Argument& argument) {
  const auto integers = integers_of(argument);
  if (!integers || integers->size() != 1) return std::nullopt;
  return integers->front();
}

std::optional<double> number_of(const Argument& argument) {
  if (argument.attribute != nullptr) {
    if (const auto* real = std::get_if<float>(argument.attribute)) return *real;
    if (const auto* integer = std::get_if<std::int64_t>(argument.attribute))
      return static_cast<double>(*integer);
    return std::nullopt;
  }
  return argument.facts->splat;
}

namespace {

using Arguments = std::span<const Argument>;

bool is_constant(Arguments a) { return a[0].facts->constant; }
// Integers wrap around, in any order to the same.
bool is_bounded_constant(Arguments a) {
  const ClassFacts& facts = *a[0].facts;
  if (!facts.constant || !facts.is_tensor()) return false;
  if (!is_float(facts.dtype())) return is_integer(facts.dtype());
  return facts.magnitude && facts.magnitude->magnitude() &&
         is_bounded(facts.dtype(), *facts.magnitude->magnitude());
}
// What idioms add to round by it, and take away again, is large.
bool is_shift(Arguments a) {
  constexpr double kMost = 1024;
  const ClassFacts& facts = *a[0].facts;
  if (!facts.constant || !facts.is_tensor()) return false;
  if (!is_float(facts.dtype()) || !facts.magnitude || !facts.magnitude->magnitude()) return true;
  return facts.magnitude->magnitude()->high <= kMost;
}
// What BatchNormalization multiplies by.
bool normalizes(Arguments a) {
  const ClassFacts &scale = *a[0].facts, &variance = *a[1].facts;
  const auto epsilon = number_of(a[2]);
  if (!is_bounded_constant(a) || !epsilon || !variance.magnitude || !variance.magnitude->magnitude())
    return false;
  const DType dtype = variance.dtype();
  auto made = magnitude_of(splat(dtype, {}, *epsilon));
  const auto apply = [&](const char* op, auto... operands) {
    if (made) made = magnitude_of(*find_op(op), dtype, std::array{operands..., *made});
  };
  apply("Add", *variance.magnitude->magnitude());
  apply("Sqrt");
  apply("Div", *scale.magnitude->magnitude());
  return made && is_bounded(scale.dtype(), *made);
}
// A matrix so small that a function of all of its rows is computed before the run.
bool is_table(Arguments a) {
  constexpr std::int64_t kMost = 1 << 18;
  const ClassFacts& facts = *a[0].facts;
  if (!facts.constant || !facts.shaped() || facts.rank() != 2) return false;
  const Dim count = product(facts.shape());
  return count.is_constant() && count.constant() <= kMost;
}
bool is_scalar(Arguments a) {
  return a[0].facts->shaped() &&
         std::ranges::all_of(a[0].facts->shape(), [](const Dim& size) { return size.is(1); });
}
bool is_number(Arguments a) { return number_of(a[0]).has_value(); }
bool is_float_value(Arguments a) { return a[0].facts->is_tensor() && is_float(a[0].facts->dtype()); }
bool is_integer_value(Arguments a) { return a[0].facts->is_tensor() && is_integer(a[0].facts->dtype()); }
bool is_wide(Arguments a) { return is_float_value(a) && bits_of(a[0].facts->dtype()) >= 32; }
bool is_single(Arguments a) { return a[0].facts->is_tensor() && a[0].facts->dtype() == DType::F32; }
bool is_static_shape(Arguments a) { return a[0].facts->shaped() && is_static(a[0].facts->shape()); }
bool has_rank(Arguments a) {
  return a[0].facts->shaped() && integer_of(a[1]) == static_cast<std::int64_t>(a[0].facts->rank());
}
bool same_type(Arguments a) { return a[0].facts->is_tensor() && a[0].facts->type() == a[1].facts->type(); }

bool all_elements(const ClassFacts& facts, std::int64_t wanted) {
  if (!facts.is_tensor() || !facts.contents().defined()) return false;
  for (std::int64_t i = 0; i < facts.contents().count(); ++i) {
    if (facts.contents().element_as_i64(i) != wanted) return false;
  }
  return true;
}
bool all_true(Arguments a) { return all_elements(*a[0].facts, 1); }
bool all_false(Arguments a) { return all_elements(*a[0].facts, 0); }

// So far from the ends of the range that multiplying by the inverse rounds nowhere.
bool is_power_of_two(Arguments a) {
  const auto number = number_of(a[0]);
  if (!number || *number == 0 || !std::isfinite(*number)) return false;
  int exponent = 0;
  return std::abs(std::frexp(*number, &exponent)) == 0.5 && std::abs(exponent) < 14;
}
bool is_positive(Arguments a) {
  const auto number = number_of(a[0]);
  return number && *number > 0 && std::isfinite(*number);
}
// Neither it nor its inverse is 0, denormal or infinite in any float type.
bool is_moderate(Arguments a) {
  const auto number = number_of(a[0]);
  return number && std::abs(*number) > 0x1p-14 && std::abs(*number) < 0x1p14;
}

bool one_axis(Arguments a) { return integers_of(a[0]).has_value() && integers_of(a[0])->size() == 1; }

// The axes are the last ones of the value.
bool is_suffix(Arguments a) {
  const auto axes = integers_of(a[0]);
  if (!axes || axes->empty() || !a[1].facts->shaped()) return false;
  const auto rank = static_cast<std::int64_t>(a[1].facts->rank());
  const auto count = static_cast<std::int64_t>(axes->size());
  for (std::int64_t i = 0; i < count; ++i) {
    if ((*axes)[static_cast<std::size_t>(i)] != rank - count + i) return false;
  }
  return true;
}

// The value is the number of elements that a reduction of `x` over `axes` takes together.
bool counts(Arguments a) {
  const auto number = number_of(a[0]);
  const auto axes = integers_of(a[2]);
  if (!number || !axes || !a[1].facts->shaped()) return false;
  std::int64_t count = 1;
  for (std::int64_t axis : *axes) {
    const auto position = static_cast<std::size_t>(axis);
    if (axis < 0 || position >= a[1].facts->rank()) return false;
    const Dim& size = a[1].facts->shape()[position];
    if (!size.is_constant()) return false;
    count *= size.constant();
  }
  return count > 0 && *number == static_cast<double>(count);
}

// Every value of the first dtype is one of the second.
bool holds_all(DType from, DType to) {
  struct Format {
    int precision, range;  // bits of the significand, of the exponent
  };
  auto format = [](DType dtype) -> std::optional<Format> {
    switch (dtype) {
      case DType::F64: return Format{53, 11};
      case DType::F32: return Format{24, 8};
      case DType::F16: return Format{11, 5};
      case DType::BF16: return Format{8, 8};
      default: return std::nullopt;
    }
  };
  if (from == to) return true;
  if (is_float(from) && is_float(to)) {
    const auto a = format(from), b = format(to);
    return a && b && a->precision <= b->precision && a->range <= b->range;
  }
  if (is_bool(from)) return is_integer(to) || format(to).has_value();
  if (!is_integer(from)) return false;
  if (is_integer(to)) {
    return lowest_integer(to) <= lowest_integer(from) && highest_integer(to) >= highest_integer(from);
  }
  const auto b = format(to);
  return b && to != DType::F16 && bits_of(from) <= b->precision;
}
bool lossless(Arguments a) {
  const auto code = integer_of(a[1]);
  if (!code || !a[0].facts->is_tensor()) return false;
  const auto to = dtype_of_onnx_code(static_cast<int>(*code));
  return to && holds_all(a[0].facts->dtype(), *to);
}

// One number per channel (axis 1) of x: sizes are 1 everywhere else, so it broadcasts into x.
bool per_channel(Arguments a) {
  const ClassFacts &value = *a[0].facts, &x = *a[1].facts;
  if (!value.shaped() || !x.shaped() || x.rank() < 2 || value.rank() > x.rank()) return false;
  const std::size_t skipped = x.rank() - value.rank();
  for (std::size_t i = 0; i < value.rank(); ++i) {
    const bool channel = i + skipped == 1;
    if (!value.shape()[i].is(1) && !(channel && value.shape()[i] == x.shape()[1])) return false;
  }
  return true;
}

// Only sizes of 1 change their place.
bool moves_units(Arguments a) {
  const auto order = integers_of(a[0]);
  if (!order || !a[1].facts->shaped() || order->size() != a[1].facts->rank()) return false;
  std::int64_t last = -1;
  for (std::int64_t axis : *order) {
    if (a[1].facts->shape()[static_cast<std::size_t>(axis)].is(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// Broadcasting to these sizes repeats nothing. A size that is not known might be 1 and be repeated.
bool adds_units(Arguments a) {
  const auto sizes = integers_of(a[0]);
  if (!sizes || !a[1].facts->shaped()) return false;
  const Shape& shape = a[1].facts->shape();
  for (std::size_t back = 1; back <= sizes->size(); ++back) {
    const std::int64_t size = (*sizes)[sizes->size() - back];
    if (size != 1 && (back > shape.size() || !shape[shape.size() - back].is(size))) return false;
  }
  return true;
}

bool same_last_size(Arguments a) {
  const ClassFacts &x = *a[0].facts, &y = *a[1].facts;
  return x.shaped() && y.shaped() && x.rank() > 0 && y.rank() > 0 && x.shape().back() == y.shape().back();
}

bool is_boolean(Arguments a) { return a[0].facts->is_tensor() && is_bool(a[0].facts->dtype()); }
bool is_one(Arguments a) { return number_of(a[0]) == 1.0; }
bool is_scaled(Arguments a) { return number_of(a[0]) != 1.0 || number_of(a[1]) != 1.0; }
bool is_zero(Arguments a) { return number_of(a[0]) == 0.0; }

// Windows without dilation, each with less padding than there are elements in it.
bool meets_image(Arguments a) {
  const auto sizes = integers_of(a[0]), padding = integers_of(a[1]), apart = integers_of(a[2]);
  if (!sizes || !padding || !apart || padding->size() != 2 * sizes->size()) return false;
  for (std::size_t i = 0; i < padding->size(); ++i) {
    if ((*padding)[i] >= (*sizes)[i % sizes->size()]) return false;
  }
  return std::ranges::all_of(*apart, [](std::int64_t step) { return step == 1; });
}

bool are_inverse(Arguments a) {
  const auto p = integers_of(a[0]), q = integers_of(a[1]);
  if (!p || !q || p->size() != q->size()) return false;
  for (std::size_t i = 0; i < q->size(); ++i) {
    if ((*p)[static_cast<std::size_t>((*q)[i])] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

// All indices are 0 and the axis has no other.
bool takes_all(Arguments a) {
  const auto indices = integers_of(a[0]);
  const auto axis = integer_of(a[2]);
  if (!indices || indices->size() != 1 || (*indices)[0] != 0 || !axis || !a[1].facts->shaped()) return false;
  const auto rank = static_cast<std::int64_t>(a[1].facts->rank());
  const std::int64_t position = *axis < 0 ? *axis + rank : *axis;
  return position < rank && a[1].facts->shape()[static_cast<std::size_t>(position)].is(1);
}

bool inverse_count(Arguments a) {
  const auto axes = integers_of(a[2]);
  const auto number = number_of(a[0]);
  if (!axes || !number || !a[1].facts->shaped() || !is_float(a[1].facts->dtype())) return false;
  std::int64_t count = 1;
  for (std::int64_t axis : *axes) {
    const auto position = static_cast<std::size_t>(axis);
    if (axis < 0 || position >= a[1].facts->rank() || !a[1].facts->shape()[position].is_constant())
      return false;
    count *= a[1].facts->shape()[position].constant();
  }
  return count > 0 && about(a[1].facts->dtype(), *number, 1.0 / static_cast<double>(count));
}

bool are_units(Arguments a) {
  const auto axes = integers_of(a[0]);
  if (!axes || axes->empty() || !a[1].facts->shaped()) return false;
  return std::ranges::all_of(*axes, [&](std::int64_t axis) {
    const auto position = static_cast<std::size_t>(axis);
    return axis >= 0 && position < a[1].facts->rank() && a[1].facts->shape()[position].is(1);
  });
}

// [batch, groups, rest] of a value with that batch whose channels the groups divide.
bool splits_channels(Arguments a) {
  const auto shape = integers_of(a[0]);
  if (!shape || shape->size() != 3 || !a[1].facts->shaped() || a[1].facts->rank() < 3) return false;
  const Dim &batch = a[1].facts->shape()[0], &channels = a[1].facts->shape()[1];
  const bool keeps_batch = (*shape)[0] == 0 ? !batch.is(0) : batch.is((*shape)[0]);
  return keeps_batch && (*shape)[1] > 0 && channels.is_constant() && channels.constant() % (*shape)[1] == 0;
}

bool is_last(Arguments a) {
  const auto axis = integer_of(a[0]);
  if (!axis || !a[1].facts->shaped()) return false;
  return *axis == -1 || *axis + 1 == static_cast<std::int64_t>(a[1].facts->rank());
}

bool all_zero(Arguments a) {
  const auto integers = integers_of(a[0]);
  return integers && std::ranges::all_of(*integers, [](std::int64_t i) { return i == 0; });
}

bool is_int8(Arguments a) {
  return a[0].facts->is_tensor() && (a[0].facts->dtype() == DType::I8 || a[0].facts->dtype() == DType::U8);
}
// Sums of so many products of two int8, each less its zero point, stay within 32 bits.
constexpr std::int64_t kMostProducts = (std::int64_t{1} << 31) / (std::int64_t{255} * 255);
bool has_short_rows(Arguments a) {
  if (!a[0].facts->shaped() || a[0].facts->rank() == 0) return false;
  const Dim& size = a[0].facts->shape().back();
  return size.is_constant() && size.constant() <= kMostProducts;
}
bool has_short_filters(Arguments a) {
  if (!a[0].facts->shaped() || a[0].facts->rank() == 0) return false;
  const Shape& shape = a[0].facts->shape();
  const Dim size = product(Shape(shape.begin() + 1, shape.end()));
  return size.is_constant() && size.constant() <= kMostProducts;
}

constexpr std::array kGuards = {
    GuardFunction{"constant", "v", is_constant, "computed from constants alone"},
    GuardFunction{"bounded", "v", is_bounded_constant,
                  "a constant whose elements are zero or neither very large nor very small"},
    GuardFunction{"shift", "v", is_shift, "a constant whose elements are not known to be beyond 1024"},
    GuardFunction{"normalizes", "vvn", normalizes, "normalizes(s, v, e): s / sqrt(v + e) is bounded"},
    GuardFunction{"table", "v", is_table, "a small constant matrix"},
    GuardFunction{"scalar", "v", is_scalar, "has one element"},
    GuardFunction{"number", "n", is_number, "a constant all of whose elements are the same"},
    GuardFunction{"float", "v", is_float_value, "has a float dtype"},
    GuardFunction{"integer", "v", is_integer_value, "has an integer dtype"},
    GuardFunction{"wide", "v", is_wide, "is f32 or f64"},
    GuardFunction{"single", "v", is_single, "is f32"},
    GuardFunction{"int8", "v", is_int8, "is i8 or u8"},
    GuardFunction{"short_rows", "v", has_short_rows,
                  "sums along its last axis of products of int8 fit 32 bits"},
    GuardFunction{"short_filters", "v", has_short_filters,
                  "sums along all but its first axis of products of int8 fit 32 bits"},
    GuardFunction{"static", "v", is_static_shape, "has sizes that are all known"},
    GuardFunction{"rank", "vn", has_rank, "rank(x, n): x has n axes"},
    GuardFunction{"same_type", "vv", same_type, "two values have one dtype and shape"},
    GuardFunction{"all_true", "v", all_true, "a constant that is true everywhere"},
    GuardFunction{"all_false", "v", all_false, "a constant that is false everywhere"},
    GuardFunction{"power_of_two", "n", is_power_of_two, "a constant that is a power of two, up to 2^13"},
    GuardFunction{"positive", "n", is_positive, "a constant above zero"},
    GuardFunction{"moderate", "n", is_moderate, "a constant between 2^-14 and 2^14, or minus that"},
    GuardFunction{"one_axis", "n", one_axis, "a constant list of one axis"},
    GuardFunction{"suffix", "nv", is_suffix, "suffix(axes, x): the last axes of x"},
    GuardFunction{"counts", "nvn", counts, "counts(n, x, axes): x has n elements along the axes"},
    GuardFunction{"lossless", "vn", lossless,
                  "lossless(x, to): the dtype of that code holds every value of x's"},
    GuardFunction{"per_channel", "vv", per_channel,
                  "per_channel(c, x): c has one element per channel of x, or one"},
    GuardFunction{"adds_units", "nv", adds_units,
                  "adds_units(sizes, x): broadcasting x to them repeats nothing"},
    GuardFunction{"moves_units", "nv", moves_units, "moves_units(perm, x): only axes of size 1 move"},
    GuardFunction{"same_last_size", "vv", same_last_size, "the last axes of both have one size"},
    GuardFunction{"boolean", "v", is_boolean, "has the dtype bool"},
    GuardFunction{"one", "n", is_one, "a constant of ones"},
    GuardFunction{"scaled", "nn", is_scaled, "scaled(s, t): one of two numbers is not 1"},
    GuardFunction{"zero", "n", is_zero, "a constant of zeros"},
    GuardFunction{"meets_image", "nnn", meets_image,
                  "meets_image(kernel_shape, pads, dilations): no window lies in the padding alone"},
    GuardFunction{"inverse", "nn", are_inverse, "inverse(p, q): permutations that undo one another"},
    GuardFunction{"takes_all", "nvn", takes_all, "takes_all(i, x, axis): index 0 of an axis of size 1"},
    GuardFunction{"inverse_count", "nvn", inverse_count, "inverse_count(c, x, axes): c is 1 / that number"},
    GuardFunction{"units", "nv", are_units, "units(axes, x): axes of size 1"},
    GuardFunction{"splits_channels", "nv", splits_channels,
                  "splits_channels(s, x): s is [batch, groups, rest] of x"},
    GuardFunction{"last", "nv", is_last, "last(axis, x): the last axis of x"},
    GuardFunction{"all_zero", "n", all_zero, "a constant list of zeros"},
};

}  // namespace

const GuardFunction* find_guard(std::string_view name) {
  auto found = std::ranges::find(kGuards, name, &GuardFunction::name);
  return found == kGuards.end() ? nullptr : &*found;
}

}  // namespace xyntra
