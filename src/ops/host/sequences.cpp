// Sequences and optionals: data that hold data.
#include <algorithm>

#include "ops/host/host_tensors.h"
#include "ops/operands.h"
#include "ops/rules.h"

namespace xyntra {
namespace {

Type element_of(const Type& type) { return type.element ? *type.element : Type(); }

// A position in [-count, count], or below count where an element must be there.
Result<std::size_t> position_of(const HostContext& c, std::size_t operand, std::size_t count,
                                bool inserting) {
  auto length = static_cast<std::int64_t>(count);
  if (!c.has_input(operand)) return inserting ? count : count - 1;
  XYNTRA_TRY(std::int64_t position, single_integer(c, operand));
  if (position < -length || position >= length + (inserting ? 1 : 0)) {
    return c.fail("position " + std::to_string(position) + " is out of range for a sequence of " +
                  std::to_string(length));
  }
  return as_size(position < 0 ? position + length : position);
}

// Sequences hold tensors and optionals hold tensors or sequences: data of any depth could not be bounded.
bool may_be_element(const Type& type) { return type.is_tensor() || type.kind == Type::Kind::Unknown; }
Status not_an_element(const OpContext& c, std::size_t operand) {
  return c.fail("operand " + std::to_string(operand) + " must be a tensor to be an element of a sequence");
}

}  // namespace

namespace rule {

Status sequence_construct(InferenceContext& c) {
  for (std::size_t i = 0; i < c.input_count(); ++i) {
    if (!may_be_element(c.type(i))) return not_an_element(c, i);
  }
  Type element = c.type(0);
  for (std::size_t i = 1; i < c.input_count(); ++i) {
    if (element.is_tensor() && c.type(i).is_tensor() && element.dtype != c.type(i).dtype) {
      return c.fail("operand " + std::to_string(i) + " is " + c.type(i).to_string() + ", operand 0 is " +
                    element.to_string());
    }
    if (!(c.type(i) == element)) element.shape.reset();
  }
  c.set_type(0, Type::sequence(std::move(element)));
  return {};
}

Status sequence_empty(InferenceContext& c) {
  DType dtype = DType::F32;
  if (c.has_attribute("dtype")) {
    XYNTRA_TRY(dtype, dtype_attribute(c, "dtype", /*strings=*/true));
  }
  c.set_type(0, Type::sequence(Type::tensor(dtype)));
  return {};
}

Status sequence_at(InferenceContext& c) {
  c.set_type(0, element_of(c.type(0)));
  return {};
}

Status sequence_insert(InferenceContext& c) {
  if (!may_be_element(c.type(1))) return not_an_element(c, 1);
  Type element = element_of(c.type(0));
  const bool same = element == c.type(1);
  if (element.kind == Type::Kind::Unknown) element = c.type(1);
  if (!same) element.shape.reset();
  c.set_type(0, Type::sequence(std::move(element)));
  return {};
}

Status sequence_erase(InferenceContext& c) {
  c.set_type(0, c.type(0));
  return {};
}

Status scalar(InferenceContext& c) {
  c.set_shape(0, {});
  return {};
}

// The size of every part of an axis, where they are known to have one.
static std::optional<Dim> equal_part_size(const OpContext& c, const Dim& extent) {
  if (!c.has_input(1)) return Dim(1);
  const auto sizes = c.integers_of(1);
  if (!sizes || sizes->empty() ||
      std::ranges::adjacent_find(*sizes, std::ranges::not_equal_to()) != sizes->end())
    return std::nullopt;
  const Dim size = sizes->front();
  const bool even = c.rank(1) == 1 || size.is(1) || (size.constant() > 0 && modulo(extent, size).is(0));
  return even ? std::optional(size) : std::nullopt;
}

Status split_to_sequence(InferenceContext& c) {
  Type element = c.type(0).is_tensor() ? Type::tensor(c.dtype(0)) : Type();
  if (element.is_tensor() && c.type(0).shape) {
    bool drops_axis = !c.has_input(1) && !c.flag("keepdims");
    XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
    Shape shape = c.shape(0);
    const auto size = equal_part_size(c, shape[axis]);
    if (drops_axis) {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
      element.shape = std::move(shape);
    } else if (size) {
      shape[axis] = *size;
      element.shape = std::move(shape);
    }
  }
  c.set_type(0, Type::sequence(std::move(element)));
  return {};
}

Status concat_from_sequence(InferenceContext& c) {
  Type element = element_of(c.type(0));
  if (element.is_tensor()) c.set_type(0, Type::tensor(element.dtype));
  return {};
}

Status optional(InferenceContext& c) {
  Type element = c.has_input(0) ? c.type(0) : Type();
  if (element.kind == Type::Kind::Optional) return c.fail("an optional cannot hold an optional");
  if (!c.has_input(0)) {
    auto given = c.node().attributes.find("type");
    if (given == c.node().attributes.end()) return c.fail("needs an operand or the attribute 'type'");
    element = std::get<Type>(given->second);
  }
  c.set_type(0, Type::optional(std::move(element)));
  return {};
}

Status optional_get_element(InferenceContext& c) {
  c.set_type(0, c.type(0).kind == Type::Kind::Optional ? element_of(c.type(0)) : c.type(0));
  return {};
}

}  // namespace rule

namespace host {
namespace {

Result<std::span<const Datum>> items_of(const HostContext& c) {
  if (c.datum(0).kind != Datum::Kind::Sequence) return c.fail("operand 0 must be a sequence");
  return std::span<const Datum>(c.datum(0).items);
}

std::vector<Datum> copied(std::span<const Datum> items) { return {items.begin(), items.end()}; }

Result<Tensor> scalar_bool(const HostContext& c, bool value) {
  XYNTRA_TRY(Tensor result, c.allocate(DType::Bool, {}));
  result.set_element_i64(0, value ? 1 : 0);
  return result;
}

// Sizes of the parts: given one by one, or one size for all with a smaller rest.
Result<std::vector<std::int64_t>> part_sizes(const HostContext& c, std::int64_t extent) {
  std::vector<std::int64_t> sizes;
  if (c.has_input(1) && c.input(1).rank() == 1) {
    sizes = c.input(1).to_integers();
    std::int64_t total = 0;
    for (std::int64_t size : sizes) {
      if (size < 0 || size > extent - total)
        return c.fail("split does not add up to " + std::to_string(extent));
      total += size;
    }
    if (total != extent) return c.fail("split does not add up to " + std::to_string(extent));
    return sizes;
  }
  std::int64_t chunk = 1;
  if (c.has_input(1)) {
    XYNTRA_TRY(chunk, single_integer(c, 1));
  }
  if (chunk < 1) return c.fail("split is " + std::to_string(chunk));
  for (std::int64_t begin = 0; begin < extent; begin += chunk)
    sizes.push_back(std::min(chunk, extent - begin));
  return sizes;
}

}  // namespace

Status sequence_construct(HostContext& c) {
  std::vector<Datum> items;
  for (std::size_t i = 0; i < c.input_count(); ++i) {
    if (c.datum(i).kind != Datum::Kind::Tensor) return not_an_element(c, i);
    items.push_back(c.datum(i));
  }
  c.set_result(0, Datum::sequence(std::move(items)));
  return {};
}

Status sequence_empty(HostContext& c) {
  c.set_result(0, Datum::sequence({}));
  return {};
}

Status sequence_at(HostContext& c) {
  XYNTRA_TRY(auto items, items_of(c));
  XYNTRA_TRY(std::size_t position, position_of(c, 1, items.size(), false));
  c.set_result(0, items[position]);
  return {};
}

Status sequence_insert(HostContext& c) {
  XYNTRA_TRY(auto before, items_of(c));
  if (c.datum(1).kind != Datum::Kind::Tensor) return not_an_element(c, 1);
  XYNTRA_TRY(std::size_t position, position_of(c, 2, before.size(), true));
  std::vector<Datum> items = copied(before);
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(position), c.datum(1));
  c.set_result(0, Datum::sequence(std::move(items)));
  return {};
}

Status sequence_erase(HostContext& c) {
  XYNTRA_TRY(auto before, items_of(c));
  if (before.empty()) return c.fail("the sequence is empty");
  XYNTRA_TRY(std::size_t position, position_of(c, 1, before.size(), false));
  std::vector<Datum> items = copied(before);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(position));
  c.set_result(0, Datum::sequence(std::move(items)));
  return {};
}

Status sequence_length(HostContext& c) {
  XYNTRA_TRY(auto items, items_of(c));
  c.set_result(0, Tensor::scalar_i64(static_cast<std::int64_t>(items.size())));
  return {};
}

Status split_to_sequence(HostContext& c) {
  const Tensor& x = c.input(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.dims().size()));
  XYNTRA_TRY(auto sizes, part_sizes(c, x.dims()[axis]));
  bool drops_axis = !c.has_input(1) && !c.flag("keepdims");
  std::vector<Datum> items;
  std::int64_t begin = 0;
  for (std::int64_t size : sizes) {
    XYNTRA_TRY(Tensor part, drops_axis ? slice_at(c, x, axis, begin) : cut(c, x, axis, begin, size));
    items.push_back(Datum::of(std::move(part)));
    begin += size;
  }
  c.set_result(0, Datum::sequence(std::move(items)));
  return {};
}

Status concat_from_sequence(HostContext& c) {
  XYNTRA_TRY(auto items, items_of(c));
  if (items.empty()) return c.fail("the sequence is empty");
  std::vector<Tensor> parts;
  for (const Datum& item : items) {
    if (item.kind != Datum::Kind::Tensor) return c.fail("the sequence holds something else than tensors");
    parts.push_back(item.tensor);
  }
  bool new_axis = c.flag("new_axis");
  XYNTRA_TRY(std::size_t axis,
             c.normalized_axis(c.integer("axis"), parts[0].dims().size() + (new_axis ? 1 : 0)));
  XYNTRA_TRY(Tensor result, new_axis ? stacked(c, parts, axis) : joined(c, parts, axis));
  c.set_result(0, std::move(result));
  return {};
}

Status optional(HostContext& c) {
  std::vector<Datum> items;
  if (c.has_input(0) && c.datum(0).kind == Datum::Kind::Optional)
    return c.fail("an optional cannot hold an optional");
  if (c.has_input(0)) items.push_back(c.datum(0));
  c.set_result(0, Datum::optional(std::move(items)));
  return {};
}

Status optional_get_element(HostContext& c) {
  const Datum& datum = c.datum(0);
  if (datum.kind != Datum::Kind::Optional) {
    c.set_result(0, datum);
    return {};
  }
  if (datum.items.empty()) return c.fail("the optional is empty");
  c.set_result(0, datum.items[0]);
  return {};
}

Status optional_has_element(HostContext& c) {
  bool there = c.has_input(0) && (c.datum(0).kind != Datum::Kind::Optional || !c.datum(0).items.empty());
  XYNTRA_TRY(Tensor result, scalar_bool(c, there));
  c.set_result(0, std::move(result));
  return {};
}

}  // namespace host
}  // namespace xyntra
