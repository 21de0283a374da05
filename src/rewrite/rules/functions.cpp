// Attributes and values that the right sides of rules compute.
#include "rewrite/rules/functions.h"

#include <algorithm>
#include <array>

#include "rewrite/normalize/assigned_slices.h"
#include "rewrite/normalize/einsum.h"
#include "rewrite/normalize/fold.h"
#include "rewrite/normalize/normalize.h"

namespace xyntra {
namespace {

using Arguments = std::span<const Argument>;
using Integers = std::vector<std::int64_t>;

// ---- attributes

// Transpose by p first, then by q.
std::optional<Attribute> compose(Arguments a) {
  const auto p = integers_of(a[0]), q = integers_of(a[1]);
  if (!p || !q || p->size() != q->size()) return std::nullopt;
  Integers composed;
  for (std::int64_t axis : *q) composed.push_back((*p)[static_cast<std::size_t>(axis)]);
  return composed;
}

std::optional<Attribute> first(Arguments a) {
  const auto integers = integers_of(a[0]);
  if (!integers || integers->empty()) return std::nullopt;
  return integers->front();
}

// The same axis counted from the back, as ops whose default is the last axis have it.
std::optional<Attribute> from_back(Arguments a) {
  const auto integers = integers_of(a[0]);
  if (!integers || integers->empty() || !a[1].facts->shaped()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(a[1].facts->rank());
  const std::int64_t axis = integers->front();
  return axis == rank - 1 ? std::int64_t{-1} : axis;
}

std::optional<Attribute> second(Arguments a) {
  const auto integers = integers_of(a[0]);
  if (!integers || integers->size() < 2) return std::nullopt;
  return (*integers)[1];
}

std::optional<Attribute> value(Arguments a) {
  const auto number = number_of(a[0]);
  if (!number) return std::nullopt;
  // Attributes are f32: what an f64 operand holds beyond that would be lost.
  const auto held = static_cast<float>(*number);
  const bool is_double = a[0].facts != nullptr && a[0].facts->dtype() == DType::F64;
  if (is_double && static_cast<double>(held) != *number) return std::nullopt;
  return held;
}

// Pads of a convolution over a padded operand: those of its spatial axes together.
std::optional<Attribute> padded(Arguments a) {
  auto pads = integers_of(a[0]);
  const auto more = integers_of(a[1]);
  if (!pads || !more || more->size() != pads->size() + 4) return std::nullopt;
  const std::size_t spatial = pads->size() / 2, rank = spatial + 2;
  for (std::size_t end = 0; end < 2; ++end) {
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t added = (*more)[end * rank + d];
      if (added < 0 || (d < 2 && added != 0)) return std::nullopt;
      if (d >= 2) (*pads)[end * spatial + d - 2] += added;
    }
  }
  return *pads;
}

// Where a transpose puts an axis.
std::optional<Attribute> place(Arguments a) {
  const auto axis = integer_of(a[0]);
  const auto order = integers_of(a[1]);
  if (!axis || !order) return std::nullopt;
  const std::int64_t position = *axis < 0 ? *axis + static_cast<std::int64_t>(order->size()) : *axis;
  const auto found = std::ranges::find(*order, position);
  // A scale of one element has no axis.
  return found == order->end() ? *axis : static_cast<std::int64_t>(found - order->begin());
}

constexpr std::array kAttributes = {
    AttributeFunction{"compose", "nn", compose, "compose(p, q): the permutation p, then q"},
    AttributeFunction{"first", "n", first, "first(axes): the first of a constant list"},
    AttributeFunction{"second", "n", second, "second(shape): the second of a constant list"},
    AttributeFunction{"from_back", "nv", from_back,
                      "from_back(axes, x): the first axis, -1 for the last of x"},
    AttributeFunction{"place", "nn", place, "place(axis, perm): where the permutation puts an axis"},
    AttributeFunction{"value", "n", value, "value(c): the number that a constant holds"},
    AttributeFunction{"padded", "nn", padded,
                      "padded(pads, more): pads of a convolution and a Pad before it"},
};

// ---- values

std::optional<TermId> expand(Program& program, TermId term, const Shape& shape) {
  if (program.facts(term).shape() == shape) return term;
  const auto dims = static_dims(shape);
  if (!dims) return std::nullopt;
  const TermId target = program.add_constant(Tensor::of_integers(*dims));
  return program.add_op(*find_op("Expand"), {}, std::array{term, target});
}

// The operand under the shape of what the rule rewrites.
std::optional<TermId> view(Program& program, const ClassFacts& root, Arguments a) {
  return root.shaped() ? reshape(program, a[0].term, root.shape()) : std::nullopt;
}
std::optional<TermId> expanded(Program& program, const ClassFacts& root, Arguments a) {
  if (!root.shaped() || !a[0].facts->shaped()) return std::nullopt;
  return expand(program, a[0].term, root.shape());
}

std::optional<Shape> trailing_shape(const ClassFacts& x, const Argument& axes) {
  const auto integers = integers_of(axes);
  if (!integers || !x.shaped()) return std::nullopt;
  Shape shape;
  for (std::int64_t axis : *integers) shape.push_back(x.shape().at(static_cast<std::size_t>(axis)));
  return shape;
}

constexpr std::int64_t kLargestFilled = 1 << 22;

// One constant number along the given axes of x.
std::optional<TermId> filled(Program& program, const ClassFacts& x, const Argument& axes, double number) {
  const auto shape = trailing_shape(x, axes);
  if (!shape) return std::nullopt;
  const auto dims = static_dims(*shape);
  const Dim count = product(*shape);
  if (!dims || !count.is_constant() || count.constant() > kLargestFilled) return std::nullopt;
  return program.add_constant(splat(x.dtype(), *dims, number));
}
std::optional<TermId> ones(Program& program, const ClassFacts&, Arguments a) {
  return filled(program, *a[0].facts, a[1], 1);
}

// Sizes that a value has along the axes of x from `first` on; it must have size 1 before.
std::optional<TermId> trailing(Program& program, TermId value, const ClassFacts& x, std::size_t first) {
  const ClassFacts& facts = program.facts(value);
  if (!facts.shaped() || !x.shaped() || facts.rank() > x.rank() || first > x.rank()) return std::nullopt;
  const Shape wanted(x.shape().begin() + static_cast<std::ptrdiff_t>(first), x.shape().end());
  if (facts.rank() > wanted.size()) {
    const std::size_t extra = facts.rank() - wanted.size();
    for (std::size_t i = 0; i < extra; ++i) {
      if (!facts.shape()[i].is(1)) return std::nullopt;
    }
    const Shape kept(facts.shape().begin() + static_cast<std::ptrdiff_t>(extra), facts.shape().end());
    auto cut = reshape(program, value, kept);
    if (!cut) return std::nullopt;
    value = *cut;
  }
  return expand(program, value, wanted);
}
// like(g, x, scale): g under the shape of scale, which covers the last axes of x.
std::optional<TermId> as_scale(Program& program, const ClassFacts&, Arguments a) {
  if (!a[1].facts->shaped() || !a[2].facts->shaped()) return std::nullopt;
  const std::size_t covered = a[2].facts->rank();
  if (covered > a[1].facts->rank()) return std::nullopt;
  return trailing(program, a[0].term, *a[1].facts, a[1].facts->rank() - covered);
}

// A value with one element per channel of the result, or one element, as a vector over the channels.
std::optional<TermId> channels(Program& program, const ClassFacts& root, Arguments a) {
  const ClassFacts& value = *a[0].facts;
  if (!value.shaped() || !root.shaped() || root.rank() < 2 || value.rank() > root.rank()) return std::nullopt;
  const Dim& count = root.shape()[1];
  const std::size_t skipped = root.rank() - value.rank();
  for (std::size_t i = 0; i < value.rank(); ++i) {
    const bool channel = i + skipped == 1;
    if (!value.shape()[i].is(1) && !(channel && value.shape()[i] == count)) return std::nullopt;
  }
  if (!count.is_constant()) return std::nullopt;
  const bool is_one = product(value.shape()).is(1);
  auto vector = reshape(program, a[0].term, is_one ? Shape{1} : Shape{count});
  return vector ? expand(program, *vector, {count}) : std::nullopt;
}
std::optional<TermId> channel_fill(Program& program, const ClassFacts&, Arguments a) {
  const ClassFacts& x = *a[0].facts;
  const auto held = number_of(a[1]);
  if (!held || !x.shaped() || x.rank() < 2 || !x.shape()[1].is_constant()) return std::nullopt;
  if (x.shape()[1].constant() > kLargestFilled) return std::nullopt;
  return program.add_constant(splat(x.dtype(), {x.shape()[1].constant()}, *held));
}

// A vector along axis `axis` of something with x's rank.
std::optional<TermId> along(Program& program, const Argument& vector, const ClassFacts& x, std::size_t axis) {
  if (!vector.facts->shaped() || !x.shaped() || vector.facts->rank() != 1 || axis >= x.rank())
    return std::nullopt;
  Shape shape(x.rank(), Dim(1));
  shape[axis] = vector.facts->shape()[0];
  return reshape(program, vector.term, shape);
}
std::optional<TermId> along_first(Program& program, const ClassFacts&, Arguments a) {
  return along(program, a[0], *a[1].facts, 0);
}
std::optional<TermId> along_second(Program& program, const ClassFacts&, Arguments a) {
  return along(program, a[0], *a[1].facts, 1);
}

// A value with one element, as a scalar, or one element for each place of an axis, as a vector along it: `given` is the axis
// it has, if it has one.
std::optional<TermId> of_one_axis(Program& program, Arguments a, bool last) {
  const ClassFacts &value = *a[0].facts, &x = *a[1].facts;
  const auto given = integer_of(a[2]);
  if (!value.shaped() || !x.shaped() || x.rank() == 0 || !given) return std::nullopt;
  if (product(value.shape()).is(1)) return reshape(program, a[0].term, {});
  const auto rank = static_cast<std::int64_t>(x.rank());
  const std::int64_t axis = *given < 0 ? *given + rank : *given;
  if (value.rank() != 1 || axis != (last ? rank - 1 : 0)) return std::nullopt;
  return a[0].term;
}
std::optional<TermId> of_columns(Program& program, const ClassFacts&, Arguments a) {
  return of_one_axis(program, a, true);
}
std::optional<TermId> of_filters(Program& program, const ClassFacts&, Arguments a) {
  return of_one_axis(program, a, false);
}
// A scalar as it is, a vector along the second of x's axes.
std::optional<TermId> along_channels(Program& program, const ClassFacts& root, Arguments a) {
  if (!a[0].facts->shaped()) return std::nullopt;
  return a[0].facts->rank() == 0 ? a[0].term : along_second(program, root, a);
}
std::optional<TermId> one_of(Program& program, const ClassFacts&, Arguments a) {
  const auto dims = a[0].facts->shaped() ? static_dims(a[0].facts->shape()) : std::nullopt;
  if (!dims || !product(a[0].facts->shape()).is(1)) return std::nullopt;
  return program.add_constant(splat(a[0].facts->dtype(), *dims, 1));
}

std::optional<TermId> inverse(Program& program, const ClassFacts&, Arguments a) {
  const auto held = number_of(a[0]);
  const auto dims = a[0].facts->shaped() ? static_dims(a[0].facts->shape()) : std::nullopt;
  if (!held || *held == 0 || !dims) return std::nullopt;
  return program.add_constant(splat(a[0].facts->dtype(), *dims, 1 / *held));
}

// A value along the rows of a matrix: one element per row, or one element.
std::optional<TermId> along_rows(Program& program, const ClassFacts&, Arguments a) {
  const ClassFacts &value = *a[0].facts, &matrix = *a[1].facts;
  if (!value.shaped() || !matrix.shaped() || matrix.rank() != 2) return std::nullopt;
  const Dim count = product(value.shape());
  if (!count.is(1) &&
      (value.rank() == 0 || !(value.shape().back() == matrix.shape()[0]) || !(count == matrix.shape()[0]))) {
    return std::nullopt;
  }
  return reshape(program, a[0].term, {count, 1});
}

std::optional<TermId> einsum(Program& program, const ClassFacts&, Arguments a) {
  const auto* equation = a[2].attribute == nullptr ? nullptr : std::get_if<std::string>(a[2].attribute);
  return equation == nullptr ? std::nullopt : einsum_as_matmul(program, a[0].term, a[1].term, *equation);
}

// A number of the dtype of x.
std::optional<TermId> number(Program& program, const ClassFacts&, Arguments a) {
  const auto held = number_of(a[0]);
  if (!held || !a[1].facts->is_tensor()) return std::nullopt;
  return program.add_number(a[1].facts->dtype(), *held);
}

// x with its last two axes exchanged.
std::optional<TermId> transposed(Program& program, const ClassFacts&, Arguments a) {
  if (!a[0].facts->shaped() || a[0].facts->rank() < 2) return std::nullopt;
  Integers order;
  for (std::size_t i = 0; i < a[0].facts->rank(); ++i) order.push_back(static_cast<std::int64_t>(i));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  NodeForm form;
  form.attributes["perm"] = order;
  return program.add_op(*find_op("Transpose"), std::move(form), std::array{a[0].term});
}

// Windows that do not overlap, with strides as long as they: every pixel of x makes a tile of the result by itself. A
// convolution of one pixel makes the channels of the tile, DepthToSpace lays them out.
std::optional<TermId> as_tiles(Program& program, const ClassFacts&, Arguments a) {
  const ClassFacts &x = *a[0].facts, &w = *a[1].facts;
  const bool biased = a.size() == 5;
  const auto strides = integers_of(a[2]), pads = integers_of(a[3]);
  if (!x.shaped() || !w.shaped() || x.rank() != 4 || w.rank() != 4 || !strides || !pads) return std::nullopt;
  // With no padding, one at the end of the result alone would give it another type.
  if (std::ranges::any_of(*pads, [](std::int64_t pad) { return pad != 0; })) return std::nullopt;
  const auto sizes = static_dims(w.shape());
  if (!sizes || strides->size() != 2 || product(w.shape()).is(0)) return std::nullopt;
  const std::int64_t inputs = (*sizes)[0], outputs = (*sizes)[1], side = (*sizes)[2];
  if ((*sizes)[3] != side || (*strides)[0] != side || (*strides)[1] != side || side < 2) return std::nullopt;
  NodeForm transpose, shuffle;
  transpose.attributes["perm"] = Integers{1, 2, 3, 0};
  shuffle.attributes["blocksize"] = side;
  shuffle.attributes["mode"] = std::string("CRD");
  const auto transposed = program.add_op(*find_op("Transpose"), std::move(transpose), std::array{a[1].term});
  const Dim channels_made(outputs * side * side);
  const auto weights =
      transposed ? reshape(program, *transposed, {channels_made, inputs, 1, 1}) : std::optional<TermId>();
  if (!weights) return std::nullopt;
  std::vector<TermId> operands{a[0].term, *weights};
  if (biased) {
    auto column = reshape(program, a[4].term, {outputs, 1});
    if (column) column = expand(program, *column, {outputs, side * side});
    if (column) column = reshape(program, *column, {channels_made});
    if (!column) return std::nullopt;
    operands.push_back(*column);
  }
  const auto convolved = program.add_op(*find_op("Conv"), {}, operands);
  if (!convolved) return std::nullopt;
  return program.add_op(*find_op("DepthToSpace"), std::move(shuffle), std::array{*convolved});
}

// The rows of w that x names, zeros where it names none: what a matmul with one-hot vectors x == i is, when i counts the
// rows of w. A row of zeros stands before and one after them, so that no index is out of range. Adding a zero makes
// negative zeros positive, as a sum with others does.
std::optional<TermId> lookup(Program& program, const ClassFacts&, Arguments a) {
  const ClassFacts &x = *a[0].facts, &w = *a[2].facts;
  const auto counted = integers_of(a[1]);
  if (!counted || !x.shaped() || !w.shaped() || w.rank() != 2 || x.rank() < 2 || !x.shape().back().is(1))
    return std::nullopt;
  const bool indexes = x.dtype() == DType::I32 || x.dtype() == DType::I64;
  const auto sizes = static_dims(w.shape());
  const Shape& along_last = a[1].facts->shape();
  if (!indexes || !sizes || along_last.empty() || !along_last.back().is((*sizes)[0])) return std::nullopt;
  const auto rows = static_cast<std::int64_t>(counted->size());
  if (rows != (*sizes)[0] || rows == 0) return std::nullopt;
  for (std::int64_t row = 0; row < rows; ++row) {
    if ((*counted)[static_cast<std::size_t>(row)] != row) return std::nullopt;
  }
  const auto apply = [&](const char* op, std::optional<TermId> first, TermId second) {
    return first ? program.add_op(*find_op(op), {}, std::array{*first, second}) : std::nullopt;
  };
  const Shape places(x.shape().begin(), x.shape().end() - 1);
  auto index = reshape(program, a[0].term, places);
  index = apply("Max", index, program.add_number(x.dtype(), -1));
  index = apply("Min", index, program.add_number(x.dtype(), static_cast<double>(rows)));
  index = apply("Add", index, program.add_number(x.dtype(), 1));
  const TermId none = program.add_constant(splat(w.dtype(), {1, (*sizes)[1]}, 0));
  const auto positive = apply("Add", a[2].term, program.add_number(w.dtype(), 0));
  if (!index || !positive) return std::nullopt;
  NodeForm stacked;
  stacked.attributes["axis"] = std::int64_t{0};
  const auto table =
      program.add_op(*find_op("Concat"), std::move(stacked), std::array{none, *positive, none});
  return table ? program.add_op(*find_op("Gather"), {}, std::array{*table, *index}) : std::nullopt;
}

std::optional<TermId> with_slice(Program& program, const ClassFacts&, Arguments a) {
  const auto indices = integers_of(a[1]);
  if (!indices || !a[1].facts->shaped()) return std::nullopt;
  return with_box_assigned(program, a[0].term, *indices, a[1].facts->shape(), a[2].term);
}

// A value that differs along the last axis of the result alone, as a vector.
std::optional<TermId> as_row(Program& program, const ClassFacts&, Arguments a) {
  const ClassFacts& value = *a[0].facts;
  if (!value.shaped()) return std::nullopt;
  for (std::size_t i = 0; i + 1 < value.rank(); ++i) {
    if (!value.shape()[i].is(1)) return std::nullopt;
  }
  return reshape(program, a[0].term, value.rank() == 0 ? Shape{} : Shape{value.shape().back()});
}

constexpr std::array kValues = {
    ValueFunction{"view", "v", view, "@view(x): x under the shape of the result"},
    ValueFunction{"expanded", "v", expanded, "@expanded(x): x broadcast to the shape of the result"},
    ValueFunction{"ones", "vn", ones, "@ones(x, axes): ones along these axes of x"},
    ValueFunction{"as_scale", "vvv", as_scale,
                  "@as_scale(g, x, s): g under the shape of s, along the last axes of x"},
    ValueFunction{"channels", "v", channels, "@channels(c): c as a vector over the channels of the result"},
    ValueFunction{"channel_fill", "vn", channel_fill,
                  "@channel_fill(x, n): a vector of n over the channels of x"},
    ValueFunction{"along_rows", "vv", along_rows, "@along_rows(g, w): g with one element per row of w"},
    ValueFunction{"einsum", "vvn", einsum, "@einsum(a, b, equation): as a matmul"},
    ValueFunction{"along_first", "vv", along_first,
                  "@along_first(v, x): vector v along the first of x's axes"},
    ValueFunction{"along_second", "vv", along_second,
                  "@along_second(v, x): vector v along the second of x's axes"},
    ValueFunction{
        "of_columns", "vvn", of_columns,
        "@of_columns(s, x, axis): one element, or one for each column of x, along whose axis s lies"},
    ValueFunction{"of_filters", "vvn", of_filters,
                  "@of_filters(s, x, axis): one element, or one for each place of x's first axis"},
    ValueFunction{"along_channels", "vv", along_channels,
                  "@along_channels(s, x): a number, or a vector along the second of x's axes"},
    ValueFunction{"inverse", "v", inverse, "@inverse(s): 1 / s of a constant of one element"},
    ValueFunction{"one_of", "v", one_of, "@one_of(s): 1 under the shape of s, which has one element"},
    ValueFunction{"number", "nv", number, "@number(c, x): a number of the dtype of x"},
    ValueFunction{"as_tiles", "vvnn", as_tiles,
                  "@as_tiles(x, w, strides, pads): a transposed convolution whose windows do not overlap"},
    ValueFunction{"as_biased_tiles", "vvnnv", as_tiles, "@as_biased_tiles(…, b): the same with a bias"},
    ValueFunction{"lookup", "vvv", lookup,
                  "@lookup(x, i, w): the rows of w that x names, where i counts them"},
    ValueFunction{"with_slice", "vvv", with_slice,
                  "@with_slice(x, i, u): x with u in the box whose places i counts"},
    ValueFunction{"as_row", "v", as_row, "@as_row(b): b as a vector along the last axis of the result"},
    ValueFunction{"transposed", "v", transposed, "@transposed(x): x with its last two axes exchanged"},
};

}  // namespace

const AttributeFunction* find_attribute_function(std::string_view name) {
  auto found = std::ranges::find(kAttributes, name, &AttributeFunction::name);
  return found == kAttributes.end() ? nullptr : &*found;
}

const ValueFunction* find_value_function(std::string_view name) {
  auto found = std::ranges::find(kValues, name, &ValueFunction::name);
  return found == kValues.end() ? nullptr : &*found;
}

std::optional<TermId> reshape(Program& program, TermId term, const Shape& shape) {
  const ClassFacts& facts = program.facts(term);
  if (!facts.shaped()) return std::nullopt;
  if (facts.shape() == shape) return term;
  const auto operand = reshape_operand(facts.shape(), shape);
  if (!operand) return std::nullopt;
  NodeForm form;
  if (std::ranges::find(shape, Dim(0)) != shape.end()) form.attributes["allowzero"] = std::int64_t{1};
  const TermId target = program.add_constant(Tensor::of_integers(*operand));
  return program.add_op(*find_op("Reshape"), std::move(form), std::array{term, target});
}

}  // namespace xyntra
