// Views that step through a tensor otherwise than along its axes: windows, diagonals, any strides.
#include <algorithm>
#include <utility>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

// start, start + step, …: `count` of them.
ValueId steps(Call& c, const Number& start, const Number& step, const Number& count) {
  const ValueId first = c.as_value(start, DType::I64), each = c.as_value(step, DType::I64);
  const ValueId iota = c.op(
      "Range", {c.whole_value(DType::I64, 0), c.as_value(count, DType::I64), c.whole_value(DType::I64, 1)});
  return c.add(first, c.mul(iota, each));
}

}  // namespace

// y[…, i, …, j] = x[…, i * step + j, …]; windows may overlap, so that nothing is written through them.
Item unfold(Call& c) {
  constexpr std::int64_t kMostElements = 16384;  // of a window
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dimension"), rank);
  const std::int64_t size = c.integer("size"), step = c.integer("step");
  if (size < 0 || step < 1 || size > kMostElements)
    return c.wrong("unfold with size " + std::to_string(size) + " and step " + std::to_string(step));
  const auto windows = [=](Call& call, ValueId base) -> ValueId {
    if (rank == 0) return call.op("Expand", {call.unsqueeze(base, {0}), call.integers_value({size})});
    const Number extent = call.size(base, axis);
    const ValueId one = call.whole_value(DType::I64, 1), zero = call.whole_value(DType::I64, 0);
    const ValueId limit =
        call.add(call.sub(call.as_value(extent, DType::I64), call.whole_value(DType::I64, size)), one);
    const ValueId starts = call.op("Range", {zero, limit, call.whole_value(DType::I64, step)});
    const ValueId offsets = call.op("Range", {zero, call.whole_value(DType::I64, size), one});
    const ValueId index = call.add(call.unsqueeze(starts, {1}), call.unsqueeze(offsets, {0}));
    const ValueId found = call.op("Gather", {base, index}, {{"axis", static_cast<std::int64_t>(axis)}});
    // The new axis goes to the end.
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < rank + 1; ++i) {
      if (i != axis + 1) order.push_back(i);
    }
    order.push_back(axis + 1);
    return call.transpose(found, order);
  };
  return c.view("self", windows, nullptr);
}

// ---- diagonals

namespace {

// A diagonal of two axes, which stand last in `order`: of both as one axis, every (columns + 1)th element.
struct Diagonal {
  std::vector<std::size_t> order;
  std::int64_t rows, columns, start, count;

  ValueId flat(Call& c, ValueId x) const {
    const ValueId moved = c.transpose(x, order);
    Sizes sizes;
    for (std::size_t i = 0; i + 2 < order.size(); ++i) sizes.push_back(c.size(moved, i));
    sizes.push_back(whole(rows * columns));
    return c.reshape(moved, sizes);
  }

  ValueId of(Call& c, ValueId x) const {
    const std::int64_t end = count == 0 ? start : start + (count - 1) * (columns + 1) + 1;
    return c.slice(flat(c, x), order.size() - 2, whole(start), whole(end), columns + 1);
  }

  // `x` with this in the place of its diagonal.
  ValueId replaced(Call& c, ValueId x, ValueId by) const {
    if (count == 0) return x;
    const ValueId places = steps(c, whole(start), whole(columns + 1), whole(count));
    const ValueId written = c.op("ScatterElements", {flat(c, x), c.expand(places, c.shape_numbers(by)), by},
                                 {{"axis", std::int64_t{-1}}});
    std::vector<std::size_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
    return c.transpose(c.reshape(written, c.shape_numbers(c.transpose(x, order))), back);
  }
};

// Of the argument "self".
Diagonal diagonal_of(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x);
  Diagonal made{};
  if (rank < 2) {
    c.wrong("diagonal of a tensor of rank " + std::to_string(rank));
    return made;
  }
  const std::size_t a = c.axis(c.integer("dim1"), rank), b = c.axis(c.integer("dim2"), rank);
  if (a == b) c.wrong("diagonal of one dimension");
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != a && i != b) made.order.push_back(i);
  }
  made.order.insert(made.order.end(), {a, b});
  made.rows = c.known_size(x, a);
  made.columns = c.known_size(x, b);
  // An offset beyond the matrix leaves nothing of it.
  const std::int64_t offset = std::clamp<std::int64_t>(c.integer("offset"), -made.rows, made.columns);
  const std::int64_t row = std::max<std::int64_t>(-offset, 0), column = std::max<std::int64_t>(offset, 0);
  made.count = std::max<std::int64_t>(std::min(made.rows - row, made.columns - column), 0);
  made.start = made.count == 0 ? 0 : row * made.columns + column;
  return made;
}

}  // namespace

Item diagonal(Call& c) {
  const Diagonal diagonal = diagonal_of(c);
  if (c.failed()) return {};
  return c.view(
      "self", [diagonal](Call& call, ValueId base) { return diagonal.of(call, base); },
      [diagonal](Call& call, ValueId base, ValueId changed) {
        return diagonal.replaced(call, base, changed);
      });
}

Item diagonal_scatter(Call& c) {
  const Diagonal diagonal = diagonal_of(c);
  if (c.failed()) return {};
  const ValueId x = c.tensor("self"), source = c.cast(c.tensor("src"), c.dtype_of(x));
  return diagonal.replaced(c, x, source);
}

// ---- any strides

namespace {

// The order of axes, outermost first, in which they step through memory without gaps; none where they do not.
std::optional<std::vector<std::size_t>> dense_order(const Integers& sizes, const Integers& strides) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sizes.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  Dim expected = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (sizes[*axis] != 1 && !expected.is(strides[*axis])) return std::nullopt;
    expected = expected * Dim(sizes[*axis]);
  }
  return order;
}

std::optional<Integers> all_known(const Sizes& numbers) {
  Integers known;
  for (const Number& number : numbers) {
    if (!number.is_whole()) return std::nullopt;
    known.push_back(number.whole());
  }
  return known;
}

// Elements of `flat` as they lie at known strides: a permuted part of it where there are no gaps, else gathered.
ValueId elements_at(Call& c, ValueId flat, const Integers& sizes, const Integers& strides,
                    std::int64_t offset) {
  Dim last = offset, count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || strides[i] < 0) return c.wrong("a negative size or stride");
    count = count * Dim(sizes[i]);
    last = last + Dim(sizes[i] - 1) * Dim(strides[i]);
  }
  const Dim extent = c.dim(flat, 0);
  const bool empty = count.is(0);
  if (!empty && (offset < 0 || (extent.is_constant() && last.constant() >= extent.constant())))
    return c.unsupported("as_strided beyond the elements of its tensor");
  if (const auto order = empty ? std::nullopt : dense_order(sizes, strides)) {
    Sizes stored;
    for (const std::size_t axis : *order) stored.push_back(whole(sizes[axis]));
    std::vector<std::size_t> back(order->size());
    for (std::size_t i = 0; i < order->size(); ++i) back[(*order)[i]] = i;
    const ValueId part = c.slice(flat, 0, whole(offset), whole(last.constant() + 1));
    return c.transpose(c.reshape(part, stored), back);
  }
  return {};
}

}  // namespace

// Strides are not what a graph knows: a reader that does says `flat`, self being all elements in the order of memory, the offset counted from
// the first of them.
Item as_strided(Call& c) {
  if (!c.flag("flat"))
    return c.unsupported("as_strided of a tensor whose strides are not known or leave gaps in memory");
  const ValueId flat = c.tensor("self");
  const Sizes sizes = c.sizes("size"), strides = c.sizes("stride");
  const Number offset = c.given("storage_offset") ? c.number("storage_offset") : whole(0);
  if (sizes.size() != strides.size()) return c.wrong("size and stride differ in length");
  if (c.rank(flat) != 1) return c.wrong("a flat tensor of rank " + std::to_string(c.rank(flat)));
  const auto known_sizes = all_known(sizes), known_strides = all_known(strides);
  if (known_sizes && known_strides && offset.is_whole()) {
    const ValueId made = elements_at(c, flat, *known_sizes, *known_strides, offset.whole());
    if (c.failed()) return {};
    if (made.valid()) return c.perhaps_view("self", made);
  }
  ValueId index = c.as_value(offset, DType::I64);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    index =
        c.add(c.unsqueeze(index, {static_cast<std::int64_t>(i)}), steps(c, whole(0), strides[i], sizes[i]));
  return c.perhaps_view("self", c.op("Gather", {flat, index}, {{"axis", std::int64_t{0}}}));
}

}  // namespace xyntra::aten
