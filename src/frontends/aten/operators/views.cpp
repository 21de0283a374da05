// Views of a tensor: what is written through one is written to the tensor it looks at.
#include <algorithm>
#include <numeric>
#include <utility>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

// The same elements in the same order under another shape.
Item reshaped(Call& c, std::function<ValueId(Call&, ValueId)> derive) {
  return c.view("self", std::move(derive), [](Call& call, ValueId base, ValueId changed) {
    return call.reshape(changed, call.shape_numbers(base));
  });
}

Item permuted(Call& c, std::vector<std::size_t> order) {
  std::vector<std::size_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
  return c.view(
      "self", [order](Call& call, ValueId base) { return call.transpose(base, order); },
      [back](Call& call, ValueId, ValueId changed) { return call.transpose(changed, back); });
}

std::vector<std::size_t> identity(std::size_t rank) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// `base` with its part [start, start + size of changed) along an axis replaced.
ValueId with_part(Call& c, ValueId base, ValueId changed, std::size_t axis, const Number& start,
                  const Number& end) {
  const ValueId before = c.slice(base, axis, whole(0), start);
  const ValueId after = c.slice(base, axis, end, whole(kToTheEnd));
  return c.concat({before, changed, after}, axis);
}

// A bound of a slice counted from the start and within the axis, as Python does; symbolic ones where their sign is known.
Number bound(Call& c, const Number& given, const Number& size) {
  if (given.is_whole() && size.is_whole()) {
    const std::int64_t from_start = given.whole() < 0 ? given.whole() + size.whole() : given.whole();
    return whole(std::clamp<std::int64_t>(from_start, 0, size.whole()));
  }
  if (given.is_whole() && given.whole() == kToTheEnd) return size;
  const ValueId extent = c.as_value(size, DType::I64), zero = c.whole_value(DType::I64, 0);
  ValueId at = c.as_value(given, DType::I64);
  if (given.is_whole() && given.whole() < 0) at = c.op("Max", {c.add(at, extent), zero});
  return c.as_number(c.op("Min", {at, extent}), NumberKind::Int);
}

Item sliced(Call& c, std::size_t axis, const Number& start, const Number& end, std::int64_t step) {
  return c.view(
      "self", [=](Call& call, ValueId base) { return call.slice(base, axis, start, end, step); },
      [=](Call& call, ValueId base, ValueId changed) -> ValueId {
        const Number size = call.size(base, axis);
        const Number from = bound(call, start, size), to = bound(call, end, size);
        if (step == 1) return with_part(call, base, changed, axis, from, to);
        const ValueId all =
            call.op("Range", {call.whole_value(DType::I64, 0), call.as_value(size, DType::I64),
                              call.whole_value(DType::I64, 1)});
        const ValueId rows = call.slice(all, 0, from, to, step);
        return call.op("ScatterElements",
                       {base,
                        call.op("Expand", {call.unsqueeze(rows,
                                                          [&] {
                                                            Integers axes;
                                                            for (std::size_t i = 0; i < call.rank(base);
                                                                 ++i) {
                                                              if (i != axis)
                                                                axes.push_back(static_cast<std::int64_t>(i));
                                                            }
                                                            return axes;
                                                          }()),
                                           call.op("Shape", {changed})}),
                        changed},
                       {{"axis", static_cast<std::int64_t>(axis)}});
      });
}

Item one_of_axis(Call& c, std::size_t axis, const Number& index) {
  const auto at = static_cast<std::int64_t>(axis);
  const auto after = [](Call& call, const Number& position) {
    if (position.is_whole()) return whole(position.whole() == -1 ? kToTheEnd : position.whole() + 1);
    return call.as_number(call.add(call.as_value(position, DType::I64), call.whole_value(DType::I64, 1)),
                          NumberKind::Int);
  };
  return c.view(
      "self",
      [=](Call& call, ValueId base) {
        // A part is a view where fusion sees one; a place that is computed, or may be none of the axis, is looked up.
        const Number size = call.size(base, axis);
        if (index.is_whole() && size.is_whole() && -size.whole() <= index.whole() &&
            index.whole() < size.whole())
          return call.squeeze(call.slice(base, axis, index, after(call, index), 1), {at});
        return call.op("Gather", {base, call.as_value(index, DType::I64)}, {{"axis", at}});
      },
      [=](Call& call, ValueId base, ValueId changed) {
        const Number size = call.size(base, axis);
        const Number from = bound(call, index, size);
        return with_part(call, base, call.unsqueeze(changed, {at}), axis, from, after(call, from));
      });
}

}  // namespace

Item alias(Call& c) { return c.same(c.has("input") ? "input" : "self"); }

// A copy that nothing shares.
Item clone(Call& c) { return c.tensor("self"); }

// Where strides are such that no copy is needed, torch gives the tensor itself.
Item contiguous(Call& c) { return c.perhaps_view("self", c.tensor("self")); }

Item view(Call& c) {
  const Sizes sizes = c.sizes(c.has("size") ? "size" : "shape");
  return reshaped(c, [sizes](Call& call, ValueId base) { return call.reshape(base, sizes); });
}

Item reshape(Call& c) {
  return c.perhaps_view("self", c.reshape(c.tensor("self"), c.sizes(c.has("shape") ? "shape" : "size")));
}

Item view_as(Call& c) {
  const Sizes sizes = c.shape_numbers(c.tensor("other"));
  return reshaped(c, [sizes](Call& call, ValueId base) { return call.reshape(base, sizes); });
}

Item view_dtype(Call& c) {
  const ValueId x = c.tensor("self");
  const auto dtype = c.dtype("dtype");
  if (!dtype || bits_of(*dtype) != bits_of(c.dtype_of(x)))
    return c.unsupported("a view as a dtype of another width");
  const DType before = c.dtype_of(x);
  if (*dtype == before) return c.same("self");
  const auto as = [](DType wanted) {
    return [wanted](Call& call, ValueId bits) {
      return call.op("BitCast", {bits}, {{"to", onnx_code(wanted)}});
    };
  };
  return c.view("self", as(*dtype),
                [back = as(before)](Call& call, ValueId, ValueId changed) { return back(call, changed); });
}

Item flatten(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x);
  const std::size_t first = c.axis(c.integer("start_dim"), rank), last = c.axis(c.integer("end_dim"), rank);
  if (first > last) return c.wrong("start_dim comes after end_dim");
  if (first == last && rank != 0) return c.same("self");
  Sizes sizes;
  for (std::size_t i = 0; i < first && i < rank; ++i) sizes.push_back(c.size(x, i));
  Dim inner = 1;
  for (std::size_t i = first; i <= last && i < rank; ++i) inner = inner * c.dim(x, i);
  // The one size that may be left open is the one that is not known.
  bool open = false;
  for (std::size_t i = 0; i < rank; ++i) open = open || (c.dim(x, i).is(0));
  if (inner.is_constant()) {
    sizes.push_back(whole(inner.constant()));
  } else if (!open) {
    sizes.push_back(whole(-1));
  }
  for (std::size_t i = last + 1; i < rank; ++i) sizes.push_back(c.size(x, i));
  if (sizes.size() != rank - std::min(rank, last - first) && rank != 0)
    return c.unsupported("flatten of an empty tensor with open sizes");
  return c.perhaps_view("self", c.reshape(x, sizes));
}

Item unflatten(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  const Sizes inner = c.sizes("sizes");
  Sizes sizes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i == axis)
      sizes.insert(sizes.end(), inner.begin(), inner.end());
    else
      sizes.push_back(c.size(x, i));
  }
  return reshaped(c, [sizes](Call& call, ValueId base) { return call.reshape(base, sizes); });
}

Item permute(Call& c) {
  const std::size_t rank = c.rank(c.tensor("self"));
  const std::vector<std::size_t> order = c.axes(c.integers("dims"), rank);
  if (order.size() != rank) return c.wrong("dims does not list every dimension");
  return permuted(c, order);
}

Item transpose(Call& c) {
  const std::size_t rank = c.rank(c.tensor("self"));
  const std::size_t a = c.axis(c.integer(c.has("dim0") ? "dim0" : "axis0"), rank);
  const std::size_t b = c.axis(c.integer(c.has("dim1") ? "dim1" : "axis1"), rank);
  std::vector<std::size_t> order = identity(rank);
  if (rank != 0) std::swap(order[a], order[b]);
  return permuted(c, order);
}

// The last two axes, or both of a matrix.
Item matrix_transpose(Call& c) {
  const std::size_t rank = c.rank(c.tensor("self"));
  std::vector<std::size_t> order = identity(rank);
  if (std::string_view(c.detail()) == "all")
    std::ranges::reverse(order);
  else if (rank >= 2)
    std::swap(order[rank - 1], order[rank - 2]);
  return permuted(c, order);
}

Item movedim(Call& c) {
  const std::size_t rank = c.rank(c.tensor("self"));
  const auto from = c.axes(c.integers("source"), rank), to = c.axes(c.integers("destination"), rank);
  if (from.size() != to.size()) return c.wrong("source and destination differ in length");
  std::vector<std::size_t> order(rank, rank), rest;
  for (std::size_t i = 0; i < from.size(); ++i) order[to[i]] = from[i];
  for (std::size_t i = 0; i < rank; ++i) {
    if (std::ranges::find(from, i) == from.end()) rest.push_back(i);
  }
  auto next = rest.begin();
  for (std::size_t& axis : order) {
    if (axis == rank && next != rest.end()) axis = *next++;
  }
  return permuted(c, order);
}

// Axes of another size than 1 stay.
Item squeeze(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x);
  std::vector<std::size_t> asked = identity(rank);
  if (c.has("dim")) asked = c.axes(c.integers("dim"), rank);
  Integers dropped;
  for (const std::size_t axis : asked) {
    if (axis >= rank) continue;  // of a scalar
    const Dim size = c.dim(x, axis);
    if (size.is(1)) dropped.push_back(static_cast<std::int64_t>(axis));
    // An open size is not 1: torch.export has shown so, or has made a constant of it.
  }
  return reshaped(c, [dropped](Call& call, ValueId base) { return call.squeeze(base, dropped); });
}

Item unsqueeze(Call& c) {
  const std::size_t rank = c.rank(c.tensor("self"));
  const auto axis = static_cast<std::int64_t>(c.axis(c.integer("dim"), rank + 1));
  return reshaped(c, [axis](Call& call, ValueId base) { return call.unsqueeze(base, {axis}); });
}

namespace {
// -1 keeps the size. Writing through an expanded tensor is refused by torch, too.
Item expanded(Call& c, Sizes sizes) {
  const std::size_t rank = c.rank(c.tensor("self"));
  if (sizes.size() < rank) return c.wrong("expand to fewer dimensions");
  return c.view(
      "self",
      [sizes](Call& call, ValueId base) {
        const std::size_t added = sizes.size() - std::min(call.rank(base), sizes.size());
        Sizes wanted = sizes;
        bool changed = added != 0;
        for (std::size_t i = added; i < wanted.size(); ++i) {
          if (wanted[i].is(-1)) wanted[i] = call.size(base, i - added);
          const Dim own = call.dim(base, i - added);
          changed = changed || !(wanted[i].is_whole() && own.is_constant() && own.is(wanted[i].whole()));
        }
        return changed ? call.expand(base, wanted) : base;
      },
      nullptr);
}
}  // namespace

Item expand(Call& c) { return expanded(c, c.sizes("size")); }
Item expand_as(Call& c) { return expanded(c, c.shape_numbers(c.tensor("other"))); }

Item select(Call& c) {
  const std::size_t rank = c.rank(c.tensor("self"));
  if (rank == 0) return c.wrong("select of a tensor of rank 0");
  return one_of_axis(c, c.axis(c.integer("dim"), rank), c.number("index"));
}

Item slice(Call& c) {
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(c.tensor("self")));
  const Number start = c.given("start") ? c.number("start") : whole(0);
  const Number end = c.given("end") ? c.number("end") : whole(kToTheEnd);
  const std::int64_t step = c.integer("step");
  if (step < 1) return c.wrong("step is " + std::to_string(step));
  if (start.is(0) && end.is(kToTheEnd) && step == 1) return sliced(c, axis, start, end, step);
  return sliced(c, axis, start, end, step);
}

Item narrow(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Number size = c.size(x, axis);
  Number start = c.number("start");
  const Number length = c.number("length");
  if (start.is_whole() && start.whole() < 0) start = bound(c, start, size);
  if (start.is_whole() && length.is_whole())
    return sliced(c, axis, start, whole(start.whole() + length.whole()), 1);
  const Number end =
      c.as_number(c.add(c.as_value(start, DType::I64), c.as_value(length, DType::I64)), NumberKind::Int);
  return sliced(c, axis, start, end, 1);
}

// ---- lists of views

namespace {

Item parts(Call& c, std::size_t axis, const Integers& sizes) {
  Item::List list;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    list.push_back(sliced(c, axis, whole(start), whole(start + size), 1));
    start += size;
  }
  return list;
}

constexpr std::int64_t kMostParts = 16384;

Item parts_of_size(Call& c, std::size_t axis, std::int64_t total, std::int64_t each) {
  if (each < 0 || (each == 0 && total != 0))
    return c.wrong("a split into parts of size " + std::to_string(each));
  if (each != 0 && total / each > kMostParts) return c.unsupported("a split into more than 16384 parts");
  Integers sizes;
  for (std::int64_t left = total; left > 0; left -= each) sizes.push_back(std::min(left, each));
  if (sizes.empty()) sizes.push_back(0);
  return parts(c, axis, sizes);
}

}  // namespace

Item split(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const std::int64_t each = c.integer("split_size");
  if (const Dim size = c.dim(x, axis); !size.is_constant()) {
    // The number of parts is known only where the size is a multiple that the program names.
    const Dim count = floor_div(size, Dim(each));
    if (each <= 0 || !count.is_constant())
      return c.unsupported("a split whose number of parts only running tells");
  }
  return parts_of_size(c, axis, c.known_size(x, axis), each);
}

Item split_with_sizes(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  Item::List list;
  Number start = whole(0);
  for (const Number& size : c.sizes(c.has("split_sizes") ? "split_sizes" : "split_size")) {
    const Number end = start.is_whole() && size.is_whole()
                           ? whole(start.whole() + size.whole())
                           : c.as_number(c.add(c.as_value(start, DType::I64), c.as_value(size, DType::I64)),
                                         NumberKind::Int);
    list.push_back(sliced(c, axis, start, end, 1));
    start = end;
  }
  return list;
}

Item chunk(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const std::int64_t chunks = c.integer("chunks");
  if (chunks < 1 || chunks > kMostParts) return c.wrong("chunk into " + std::to_string(chunks) + " parts");
  const Dim size = c.dim(x, axis);
  if (size.is_constant()) {
    const std::int64_t each = (size.constant() + chunks - 1) / chunks;
    if (each != 0) return parts_of_size(c, axis, size.constant(), each);
    return parts(c, axis, Integers(static_cast<std::size_t>(chunks), 0));
  }
  // An open size: so many parts as the program has results for, each of the size rounded up.
  const auto& results = c.node().results;
  const bool listed = results.size() == 1 && results[0].is_list;
  if (listed && std::cmp_not_equal(results[0].values.size(), chunks))
    return c.unsupported("chunks of an open size, of which the program expects fewer than it asks for");
  Item::List list;
  const ValueId rounded =
      c.add(c.as_value(c.size(x, axis), DType::I64), c.whole_value(DType::I64, chunks - 1));
  const ValueId part = c.div(rounded, c.whole_value(DType::I64, chunks));
  for (std::int64_t i = 0; i < chunks; ++i) {
    const auto edge = [&](std::int64_t n) {
      return n == 0 ? whole(0) : c.as_number(c.mul(part, c.whole_value(DType::I64, n)), NumberKind::Int);
    };
    list.push_back(sliced(c, axis, edge(i), edge(i + 1), 1));
  }
  return list;
}

Item tensor_split(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const std::int64_t size = c.known_size(x, axis);
  Integers sizes;
  if (c.has("sections")) {
    const std::int64_t sections = c.integer("sections");
    if (sections < 1 || sections > kMostParts)
      return c.wrong("a split into " + std::to_string(sections) + " sections");
    for (std::int64_t i = 0; i < sections; ++i)
      sizes.push_back(size / sections + (i < size % sections ? 1 : 0));
    return parts(c, axis, sizes);
  }
  Item::List list;
  Number start = whole(0);
  Integers indices = c.integers("indices");
  indices.push_back(kToTheEnd);
  for (const std::int64_t end : indices) {
    list.push_back(sliced(c, axis, start, whole(end), 1));
    start = whole(end);
  }
  return list;
}

Item unbind(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const std::int64_t count = c.known_size(x, axis);
  if (count > kMostParts) return c.unsupported("unbind into more than 16384 parts");
  Item::List list;
  for (std::int64_t i = 0; i < count && !c.failed(); ++i) list.push_back(one_of_axis(c, axis, whole(i)));
  return list;
}

}  // namespace xyntra::aten
