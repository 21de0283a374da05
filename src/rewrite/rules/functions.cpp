// Attributes and values that the right sides of rules compute.
#include "rewrite/rules/functions.h"

#include <algorithm>
#include <array>
#include <limits>

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

// Elements of a transposed convolution that are as far from a multiple of the stride belong together: they see every stride-th weight,
// all others would meet zeros. Where windows are some strides long each phase is a convolution of stride 1 with as many weights, and all
// of them are channels of one; what comes of it is shuffled like DepthToSpace, and cropped by what the padding takes away.
//
//   y[s q + r] = sum(j) x[q - j] w[s j + r]      for each phase r < s
class Phases {
 public:
  Phases(Program& program, std::vector<std::int64_t> weights, std::vector<std::int64_t> strides,
         const std::vector<std::int64_t>& pads)
      : program_(program), weights_(std::move(weights)), strides_(std::move(strides)) {
    for (std::size_t d = 0; d < rank(); ++d) {
      taps_.push_back(side(d) / strides_[d]);
      all_ *= strides_[d];
      begin_.push_back(pads[d]);
      end_.push_back(pads[rank() + d]);
    }
  }

  std::optional<TermId> run(TermId x, TermId w, const Dim& batch, std::optional<TermId> bias) {
    std::vector<TermId> operands{x};
    for (const auto& one : {turned(w), bias ? repeated(*bias) : std::nullopt}) {
      if (one) operands.push_back(*one);
    }
    if (operands.size() != (bias ? 3 : 2)) return std::nullopt;
    NodeForm form;
    form.attributes["pads"] = conv_pads();
    const auto made = program_.add_op(*find_op("Conv"), std::move(form), operands);
    const auto whole = made ? shuffled(*made, batch) : std::nullopt;
    return whole ? cropped(*whole) : std::nullopt;
  }

 private:
  std::size_t rank() const { return strides_.size(); }
  std::int64_t side(std::size_t d) const { return weights_[2 + d]; }
  std::int64_t inputs() const { return weights_[0]; }
  std::int64_t outputs() const { return weights_[1]; }

  std::optional<TermId> transpose(TermId term, Integers perm) {
    NodeForm form;
    form.attributes["perm"] = std::move(perm);
    return program_.add_op(*find_op("Transpose"), std::move(form), std::array{term});
  }
  std::optional<TermId> slice(TermId term, const Integers& starts, const Integers& ends, const Integers& axes,
                              const Integers& steps) {
    std::vector<TermId> operands{term};
    for (const Integers* one : {&starts, &ends, &axes, &steps})
      operands.push_back(program_.add_constant(Tensor::of_integers(*one)));
    return program_.add_op(*find_op("Slice"), {}, operands);
  }

  // w[c, m, s j + r] as [(m, r), c, J - 1 - j].
  std::optional<TermId> turned(TermId w) {
    Shape apart{inputs(), outputs()}, together{outputs() * all_, inputs()};
    Integers perm{1}, starts, ends, axes, steps;
    for (std::size_t d = 0; d < rank(); ++d) {
      apart.insert(apart.end(), {Dim(taps_[d]), Dim(strides_[d])});
      together.push_back(taps_[d]);
      perm.push_back(static_cast<std::int64_t>(3 + 2 * d));
      if (taps_[d] == 1) continue;
      starts.push_back(-1);
      ends.push_back(std::numeric_limits<std::int64_t>::min());
      axes.push_back(static_cast<std::int64_t>(2 + d));
      steps.push_back(-1);
    }
    perm.push_back(0);
    for (std::size_t d = 0; d < rank(); ++d) perm.push_back(static_cast<std::int64_t>(2 + 2 * d));
    auto made = reshape(program_, w, apart);
    if (made) made = transpose(*made, std::move(perm));
    if (made) made = reshape(program_, *made, together);
    return made && !axes.empty() ? slice(*made, starts, ends, axes, steps) : made;
  }

  std::optional<TermId> repeated(TermId bias) {
    auto made = reshape(program_, bias, {outputs(), 1});
    if (made) made = expand(program_, *made, {outputs(), all_});
    return made ? reshape(program_, *made, {outputs() * all_}) : std::nullopt;
  }

  // Whole strides that are cropped are not computed at all.
  std::int64_t left_out(const Integers& crop, std::size_t d) const {
    return std::min(taps_[d] - 1, crop[d] / strides_[d]);
  }
  Integers conv_pads() const {
    Integers pads;
    for (const Integers* crop : {&begin_, &end_}) {
      for (std::size_t d = 0; d < rank(); ++d) pads.push_back(taps_[d] - 1 - left_out(*crop, d));
    }
    return pads;
  }

  std::optional<TermId> shuffled(TermId made, const Dim& batch) {
    if (all_ == 1) return made;
    if (rank() == 2 && strides_[0] == strides_[1]) {
      NodeForm form;
      form.attributes["blocksize"] = strides_[0];
      form.attributes["mode"] = std::string("CRD");
      return program_.add_op(*find_op("DepthToSpace"), std::move(form), std::array{made});
    }
    const Shape shape = program_.facts(made).shape();
    Shape apart{batch, outputs()}, together = apart;
    Integers perm{0, 1};
    for (std::size_t d = 0; d < rank(); ++d) {
      apart.push_back(strides_[d]);
      together.push_back(shape[2 + d] * strides_[d]);
      perm.push_back(static_cast<std::int64_t>(2 + rank() + d));
      perm.push_back(static_cast<std::int64_t>(2 + d));
    }
    apart.insert(apart.end(), shape.begin() + 2, shape.end());
    auto taken = reshape(program_, made, apart);
    if (taken) taken = transpose(*taken, std::move(perm));
    return taken ? reshape(program_, *taken, together) : std::nullopt;
  }

  std::optional<TermId> cropped(TermId whole) {
    Integers starts, ends, axes, steps;
    for (std::size_t d = 0; d < rank(); ++d) {
      const std::int64_t begin = begin_[d] - left_out(begin_, d) * strides_[d],
                         end = end_[d] - left_out(end_, d) * strides_[d];
      if (begin == 0 && end == 0) continue;
      starts.push_back(begin);
      ends.push_back(end == 0 ? std::numeric_limits<std::int64_t>::max() : -end);
      axes.push_back(static_cast<std::int64_t>(2 + d));
      steps.push_back(1);
    }
    return axes.empty() ? std::optional(whole) : slice(whole, starts, ends, axes, steps);
  }

  Program& program_;
  std::vector<std::int64_t> weights_, strides_, taps_;
  Integers begin_, end_;  // what is cropped
  std::int64_t all_ = 1;  // phases
};

std::optional<TermId> as_phases(Program& program, const ClassFacts&, Arguments a) {
  const ClassFacts &x = *a[0].facts, &w = *a[1].facts;
  const auto strides = integers_of(a[2]), pads = integers_of(a[3]);
  if (!x.shaped() || !w.shaped() || !strides || !pads) return std::nullopt;
  const auto sizes = static_dims(w.shape());
  const std::size_t rank = strides->size();
  const bool fits = sizes && rank >= 1 && rank <= 2 && sizes->size() == rank + 2 && x.rank() == rank + 2 &&
                    pads->size() == 2 * rank && !product(w.shape()).is(0);
  if (!fits || std::ranges::any_of(*pads, [](std::int64_t pad) { return pad < 0; })) return std::nullopt;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t stride = (*strides)[d];
    if (stride < 1 || (*sizes)[2 + d] % stride != 0) return std::nullopt;
  }
  return Phases(program, *sizes, *strides, *pads)
      .run(a[0].term, a[1].term, x.shape()[0], a.size() == 5 ? std::optional(a[4].term) : std::nullopt);
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
    ValueFunction{"as_phases", "vvnn", as_phases,
                  "@as_phases(x, w, strides, pads): a transposed convolution, phase by phase of its strides"},
    ValueFunction{"as_biased_phases", "vvnnv", as_phases, "@as_biased_phases(…, b): the same with a bias"},
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
