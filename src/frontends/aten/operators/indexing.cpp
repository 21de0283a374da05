// Elements by index: gather, scatter, masks, embeddings.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

// An argument that names places, in a dtype that gathers and scatters take.
ValueId places(Call& c, std::string_view name) {
  const ValueId given = c.tensor(name);
  return c.dtype_of(given) == DType::I32 ? given : c.cast(given, DType::I64);
}

// x[i, j, :, k]: which axes have an index, and what it is. A mask of several axes is the positions of what is true in it.
struct Indices {
  std::vector<std::size_t> axes;
  std::vector<ValueId> values;
};

Indices indices_of(Call& c, ValueId x) {
  Indices found;
  std::size_t axis = 0;
  for (const ValueId index : c.tensors("indices")) {
    if (c.failed()) return found;
    if (!index.valid()) {
      ++axis;
      continue;
    }
    const bool is_mask = is_bool(c.dtype_of(index)) || c.dtype_of(index) == DType::U8;
    const std::size_t count = is_mask ? c.rank(index) : 1;
    if (axis + count > c.rank(x)) {
      c.wrong("more indices than axes");
      return found;
    }
    if (!is_mask) {
      found.axes.push_back(axis++);
      found.values.push_back(c.cast(index, DType::I64));
      continue;
    }
    if (count == 0) {
      c.unsupported("an index that is a single truth value");
      return found;
    }
    const ValueId positions = c.op("NonZero", {index});  // [axes of the mask, count]
    for (std::size_t k = 0; k < count; ++k) {
      found.axes.push_back(axis++);
      found.values.push_back(
          c.op("Gather", {positions, c.whole_value(DType::I64, static_cast<std::int64_t>(k))}));
    }
  }
  return found;
}

// The indexed axes first, then the others.
std::vector<std::size_t> indexed_first(const Indices& indices, std::size_t rank) {
  std::vector<std::size_t> order = indices.axes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (std::ranges::find(indices.axes, i) == indices.axes.end()) order.push_back(i);
  }
  return order;
}

// The indices broadcast to one shape and stacked: [shape…, number of indices].
ValueId index_tuples(Call& c, const Indices& indices) {
  ValueId sum = indices.values[0];
  for (std::size_t i = 1; i < indices.values.size(); ++i) sum = c.add(sum, indices.values[i]);
  const ValueId shape = c.op("Shape", {sum});
  std::vector<ValueId> parts;
  const auto last = static_cast<std::int64_t>(c.rank(sum));
  for (const ValueId index : indices.values)
    parts.push_back(c.unsqueeze(c.op("Expand", {index, shape}), {last}));
  return parts.size() == 1 ? parts[0] : c.concat(parts, static_cast<std::size_t>(last));
}

bool are_adjacent(const std::vector<std::size_t>& axes) {
  for (std::size_t i = 1; i < axes.size(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return false;
  }
  return true;
}

}  // namespace

Item index(Call& c) {
  const ValueId x = c.tensor("self");
  const Indices indices = indices_of(c, x);
  if (c.failed() || indices.axes.empty()) return x;
  const std::size_t rank = c.rank(x), count = indices.axes.size();
  if (count == 1)
    return c.op("Gather", {x, indices.values[0]}, {{"axis", static_cast<std::int64_t>(indices.axes[0])}});
  const ValueId tuples = index_tuples(c, indices);
  const ValueId y = c.op("GatherND", {c.transpose(x, indexed_first(indices, rank)), tuples});
  const std::size_t first = indices.axes[0], shape_rank = c.rank(tuples) - 1;
  if (!are_adjacent(indices.axes) || first == 0) return y;
  // The shape of the indices stands where the indexed axes stood.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < first; ++i) order.push_back(shape_rank + i);
  for (std::size_t i = 0; i < shape_rank; ++i) order.push_back(i);
  for (std::size_t i = shape_rank + first; i < c.rank(y); ++i) order.push_back(i);
  return c.transpose(y, order);
}

namespace {

// One mask and one value for all it marks: no position has to be known.
std::optional<ValueId> filled_by_mask(Call& c, ValueId x, ValueId values) {
  const std::vector<ValueId> indices = c.tensors("indices");
  const bool one_mask = indices.size() == 1 && indices[0].valid() && is_bool(c.dtype_of(indices[0]));
  if (c.failed() || !one_mask || c.flag("accumulate")) return std::nullopt;
  const Type& type = c.type(values);
  if (!type.shape || !product(*type.shape).is(1)) return std::nullopt;
  ValueId mask = indices[0];
  Integers added;
  for (std::size_t i = c.rank(mask); i < c.rank(x); ++i) added.push_back(static_cast<std::int64_t>(i));
  mask = c.unsqueeze(mask, added);
  return c.where(mask, c.reshape(values, {}), x);
}

}  // namespace

Item index_put(Call& c) {
  const ValueId x = c.tensor("self");
  ValueId values = c.cast(c.tensor("values"), c.dtype_of(x));
  if (const auto made = filled_by_mask(c, x, values)) return *made;
  const Indices indices = indices_of(c, x);
  if (c.failed()) return x;
  if (indices.axes.empty()) return c.expand(values, c.shape_numbers(x));
  const std::size_t rank = c.rank(x);
  const std::vector<std::size_t> order = indexed_first(indices, rank);
  std::vector<std::size_t> back(rank);
  for (std::size_t i = 0; i < rank; ++i) back[order[i]] = i;
  const ValueId data = c.transpose(x, order), tuples = index_tuples(c, indices);
  // What is written has the shape of x[indices]: that of the indices first, or where the indexed axes stood.
  const std::size_t shape_rank = c.rank(tuples) - 1, first = indices.axes[0];
  const bool moved = are_adjacent(indices.axes) && first != 0;
  std::vector<ValueId> sizes;
  const auto part = [&](ValueId of, std::size_t start, std::size_t end) {
    if (start < end)
      sizes.push_back(
          c.op("Shape", {of},
               {{"start", static_cast<std::int64_t>(start)}, {"end", static_cast<std::int64_t>(end)}}));
  };
  const std::size_t count = indices.axes.size();
  if (moved) {
    part(data, count, count + first);
    part(tuples, 0, shape_rank);
    part(data, count + first, rank);
  } else {
    part(tuples, 0, shape_rank);
    part(data, count, rank);
  }
  if (!sizes.empty()) values = c.op("Expand", {values, sizes.size() == 1 ? sizes[0] : c.concat(sizes, 0)});
  if (moved) {
    std::vector<std::size_t> to_front;
    for (std::size_t i = 0; i < shape_rank; ++i) to_front.push_back(first + i);
    for (std::size_t i = 0; i < first; ++i) to_front.push_back(i);
    for (std::size_t i = first + shape_rank; i < shape_rank + rank - count; ++i) to_front.push_back(i);
    values = c.transpose(values, to_front);
  }
  const ValueId y = c.op("ScatterND", {data, tuples, values},
                         {{"reduction", std::string(c.flag("accumulate") ? "add" : "none")}});
  return c.transpose(y, back);
}

Item embedding(Call& c) {
  return c.op("Gather", {c.tensor("weight"), places(c, "indices")}, {{"axis", std::int64_t{0}}});
}

Item index_select(Call& c) {
  ValueId x = c.tensor("self"), index = places(c, "index");
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  if (rank == 0) return x;
  if (c.rank(index) == 0) index = c.unsqueeze(index, {0});
  return c.op("Gather", {x, index}, {{"axis", static_cast<std::int64_t>(axis)}});
}

namespace {

// Scalars count as vectors of one element here.
struct Elements {
  ValueId data, index;
  std::int64_t axis = 0;
  bool scalar = false;
};

Elements elements_of(Call& c) {
  Elements e{c.tensor("self"), places(c, "index")};
  e.scalar = c.rank(e.data) == 0;
  if (e.scalar) e.data = c.unsqueeze(e.data, {0});
  if (c.rank(e.index) == 0) e.index = c.unsqueeze(e.index, {0});
  e.axis = static_cast<std::int64_t>(c.axis(c.integer("dim"), c.rank(e.data)));
  return e;
}

// `x` cut to the shape of the index, along every axis but one.
ValueId cut_to(Call& c, ValueId x, ValueId index, std::optional<std::int64_t> except) {
  for (std::size_t i = 0; i < c.rank(x) && i < c.rank(index); ++i) {
    if (except && static_cast<std::int64_t>(i) == *except) continue;
    if (c.dim(x, i) == c.dim(index, i)) continue;
    x = c.slice(x, i, whole(0), c.size(index, i));
  }
  return x;
}

// What a combiner leaves as it is: the largest is at least this, a product with this is the other factor.
ValueId neutral(Call& c, DType dtype, std::string_view reduction) {
  if (reduction == "add" || reduction == "mul") return c.whole_value(dtype, reduction == "mul" ? 1 : 0);
  const bool largest = reduction == "max";
  if (is_float(dtype)) return c.scalar(dtype, largest ? -HUGE_VAL : HUGE_VAL);
  if (is_bool(dtype)) return c.whole_value(dtype, largest ? 0 : 1);
  const bool negative = is_signed_integer(dtype);
  if (largest && !negative) return c.whole_value(dtype, 0);
  const unsigned bits = static_cast<unsigned>(bits_of(dtype)) - (negative ? 1U : 0U);
  if (bits >= 64) return c.unsupported("scatter_reduce of u64 without what was there before");
  const auto most = static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
  return c.whole_value(dtype, largest ? -most - 1 : most);
}

ValueId scattered(Call& c, const Elements& e, ValueId source, const std::string& reduction) {
  const ValueId y =
      c.op("ScatterElements", {e.data, e.index, source}, {{"axis", e.axis}, {"reduction", reduction}});
  return e.scalar ? c.reshape(y, {}) : y;
}

}  // namespace

Item gather(Call& c) {
  const bool scalar_index = c.rank(c.tensor("index")) == 0;
  const Elements e = elements_of(c);
  const Shape& wanted = c.shape(e.index);
  if (std::ranges::any_of(wanted, [](const Dim& size) { return size.is_constant() && size.constant() == 0; }))
    return c.op("Expand", {c.whole_value(c.dtype_of(e.data), 0), c.op("Shape", {e.index})});  // of any rank
  const ValueId y = c.op("GatherElements", {cut_to(c, e.data, e.index, e.axis), e.index}, {{"axis", e.axis}});
  return e.scalar && scalar_index ? c.reshape(y, {}) : y;
}

// detail: how what meets is combined, where the call does not say.
Item scatter(Call& c) {
  Elements e = elements_of(c);
  bool mean = false, alone = false;  // of what comes and what was there before, or of what comes alone
  const DType dtype = c.dtype_of(e.data);
  std::string reduction = c.detail();
  if (c.has("reduce")) {
    const std::string asked = c.text("reduce");
    mean = asked == "mean";
    reduction = asked == "add" || asked == "sum" || mean ? "add"
                : asked == "multiply" || asked == "prod" ? "mul"
                : asked == "amax"                        ? "max"
                : asked == "amin"                        ? "min"
                                                         : "";
    if (reduction.empty()) return c.unsupported("scatter with the reduction '" + asked + "'");
    alone = c.has("include_self") && !c.flag("include_self");
  }
  ValueId source;
  if (c.has("src") && c.argument("src").tensor() != nullptr) {
    source = c.tensor("src");
    if (c.rank(source) == 0) source = c.unsqueeze(source, {0});
    source = cut_to(c, c.cast(source, dtype), e.index, std::nullopt);
  } else {
    source = c.op("Expand", {c.as_value(c.number("value"), dtype), c.op("Shape", {e.index})});
  }
  if (reduction.empty()) reduction = "none";
  const auto filled = [&](ValueId value) { return c.op("Expand", {value, c.op("Shape", {e.index})}); };
  if (alone) {
    e.data =
        c.op("ScatterElements", {e.data, e.index, filled(neutral(c, dtype, reduction))}, {{"axis", e.axis}});
  }
  if (!mean) return scattered(c, e, source, reduction);
  const bool scalar = e.scalar;
  e.scalar = false;
  const ValueId sum = scattered(c, e, source, reduction);
  const DType counted = is_float(dtype) ? dtype : DType::I64;
  Elements counts = e;
  counts.data = c.op("Expand", {c.whole_value(counted, alone ? 0 : 1), c.op("Shape", {e.data})});
  const ValueId count = c.op(
      "Max", {scattered(c, counts, filled(c.whole_value(counted, 1)), "add"), c.whole_value(counted, 1)});
  ValueId y = c.div(c.cast(sum, counted), count);
  if (!is_float(dtype)) {  // rounded down, as torch does it
    const ValueId left = c.sub(c.cast(sum, counted), c.mul(y, count));
    y = c.cast(c.sub(y, c.cast(c.op("Less", {left, c.whole_value(counted, 0)}), counted)), dtype);
  }
  return scalar ? c.reshape(y, {}) : y;
}

// Rows of an axis: index is a vector; detail "add", "none", or "fill", which has one value for all.
Item scatter_rows(Call& c) {
  const std::string_view how = c.detail();
  ValueId x = c.tensor("self"), index = places(c, "index");
  const bool scalar = c.rank(x) == 0;
  if (scalar) x = c.unsqueeze(x, {0});
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  if (c.rank(index) == 0) index = c.unsqueeze(index, {0});
  const bool either =
      how == "add" && is_bool(c.dtype_of(x));  // a sum of bools is whether one of them is true
  if (either) x = c.cast(x, DType::I32);
  const DType dtype = c.dtype_of(x);
  Sizes sizes = c.shape_numbers(x);
  sizes[axis] = c.size(index, 0);
  ValueId source;
  if (how == "fill") {
    source = c.expand(c.as_value(c.operand("value"), dtype), sizes);
  } else {
    source = c.cast(c.tensor("source"), dtype);
    if (how == "add" && c.has("alpha") && !c.number("alpha").is(1))
      source = c.mul(source, c.as_value(c.number("alpha"), dtype));
    source = c.expand(source, sizes);
  }
  Sizes column(rank, whole(1));
  column[axis] = sizes[axis];
  const ValueId where = c.expand(c.reshape(index, column), sizes);
  ValueId y = c.op(
      "ScatterElements", {x, where, source},
      {{"axis", static_cast<std::int64_t>(axis)}, {"reduction", std::string(how == "add" ? "add" : "none")}});
  if (either) y = c.cast(y, DType::Bool);
  return scalar ? c.reshape(y, {}) : y;
}

// ---- parts replaced

namespace {

Number after(Call& c, const Number& position, std::int64_t by = 1) {
  if (position.is_whole()) return whole(position.whole() + by);
  return c.as_number(c.add(c.as_value(position, DType::I64), c.whole_value(DType::I64, by)), NumberKind::Int);
}

ValueId replaced(Call& c, ValueId x, ValueId part, std::size_t axis, const Number& start, const Number& end) {
  return c.concat({c.slice(x, axis, whole(0), start), part, c.slice(x, axis, end, whole(kToTheEnd))}, axis);
}

}  // namespace

Item select_scatter(Call& c) {
  const ValueId x = c.tensor("self"), source = c.cast(c.tensor("src"), c.dtype_of(x));
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  Number position = c.number("index");
  if (position.is_whole() && position.whole() < 0) {
    const Number size = c.size(x, axis);
    position = size.is_whole() ? whole(position.whole() + size.whole()) : after(c, size, position.whole());
  }
  return replaced(c, x, c.unsqueeze(source, {static_cast<std::int64_t>(axis)}), axis, position,
                  after(c, position));
}

Item slice_scatter(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const std::int64_t step = c.integer("step");
  const Number start = c.given("start") ? c.number("start") : whole(0);
  const Number end = c.given("end") ? c.number("end") : whole(kToTheEnd);
  // The positions of the slice among those of the axis, so that bounds mean what they mean to a slice.
  const ValueId all = c.op("Range", {c.whole_value(DType::I64, 0), c.as_value(c.size(x, axis), DType::I64),
                                     c.whole_value(DType::I64, 1)});
  const ValueId rows = c.slice(all, 0, start, end, step);
  const ValueId source = c.cast(c.tensor("src"), c.dtype_of(x));
  Sizes sizes = c.shape_numbers(x);
  sizes[axis] = c.size(rows, 0);
  const ValueId part = c.expand(source, sizes);
  if (step == 1 && start.is_whole() && start.whole() >= 0) {
    // As the end may lie behind the axis, the part's own length says where it ends.
    const Number length = c.size(rows, 0);
    if (start.is(0) && c.dim(rows, 0) == c.dim(x, axis)) return part;
    const Number stop =
        length.is_whole() ? whole(start.whole() + length.whole()) : after(c, length, start.whole());
    return replaced(c, x, part, axis, start, stop);
  }
  Sizes column(c.rank(x), whole(1));
  column[axis] = sizes[axis];
  return c.op("ScatterElements", {x, c.expand(c.reshape(rows, column), sizes), part},
              {{"axis", static_cast<std::int64_t>(axis)}});
}

// ---- masks

Item nonzero(Call& c) {
  const ValueId x = c.tensor("self");
  const ValueId positions = c.op("NonZero", {c.rank(x) == 0 ? c.unsqueeze(x, {0}) : x});
  const ValueId rows = c.swap_axes(positions, 0, 1);
  return c.rank(x) == 0 ? c.slice(rows, 1, whole(0), whole(0)) : rows;
}

// The positions along each axis, as NumPy lists them.
Item nonzero_by_axis(Call& c) {
  const ValueId x = c.tensor(c.has("condition") ? "condition" : "self");
  const ValueId positions = c.op("NonZero", {c.rank(x) == 0 ? c.unsqueeze(x, {0}) : x});
  Item::List axes;
  for (std::size_t i = 0; i < std::max<std::size_t>(c.rank(x), 1); ++i)
    axes.emplace_back(c.op("Gather", {positions, c.whole_value(DType::I64, static_cast<std::int64_t>(i))},
                           {{"axis", std::int64_t{0}}}));
  return axes;
}

Item masked_select(Call& c) {
  const ValueId x = c.tensor("self"), mask = c.tensor("mask");
  const ValueId shape = c.op("Shape", {c.op("Where", {mask, x, x})});
  const auto flat = [&](ValueId v) { return c.reshape(c.op("Expand", {v, shape}), {whole(-1)}); };
  return c.op("Compress", {flat(x), flat(mask)}, {{"axis", std::int64_t{0}}});
}

// The nth element that the mask marks becomes the nth of the source.
Item masked_scatter(Call& c) {
  const ValueId given = c.cast(c.tensor("mask"), DType::Bool);
  ValueId x = c.tensor("self");
  if (c.shape(x) != c.shape(given)) x = c.op("Expand", {x, c.op("Shape", {given})});
  const Sizes sizes = c.shape_numbers(x);
  const ValueId mask = c.reshape(c.expand(given, sizes), {whole(-1)});
  const ValueId source = c.reshape(c.cast(c.tensor("source"), c.dtype_of(x)), {whole(-1)});
  const ValueId count = c.op("CumSum", {c.cast(mask, DType::I64), c.whole_value(DType::I64, 0)});
  const ValueId place =
      c.op("Max", {c.sub(count, c.whole_value(DType::I64, 1)), c.whole_value(DType::I64, 0)});
  const ValueId last = c.sub(c.op("Size", {source}), c.whole_value(DType::I64, 1));
  const ValueId taken = c.op("Gather", {source, c.op("Min", {place, last})}, {{"axis", std::int64_t{0}}});
  return c.reshape(c.where(mask, taken, c.reshape(x, {whole(-1)})), sizes);
}

Item take_along(Call& c) {
  ValueId x = c.tensor("self"), index = places(c, "indices");
  if (!c.given("dim")) {
    x = c.reshape(x, {whole(-1)});
    return c.op("GatherElements", {x, c.reshape(index, {whole(-1)})}, {{"axis", std::int64_t{0}}});
  }
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  Sizes for_x = c.shape_numbers(index), for_index = c.shape_numbers(x);
  if (for_x.size() != rank) return c.wrong("indices have another rank than self");
  for_x[axis] = for_index[axis];
  for_index[axis] = c.size(index, axis);
  return c.op("GatherElements", {c.expand(x, for_x), c.expand(index, for_index)},
              {{"axis", static_cast<std::int64_t>(axis)}});
}

Item take(Call& c) {
  return c.op("Gather", {c.reshape(c.tensor("self"), {whole(-1)}), places(c, "index")},
              {{"axis", std::int64_t{0}}});
}

Item one_hot(Call& c) {
  const std::int64_t classes = c.integer("num_classes");
  if (classes < 0) return c.unsupported("one_hot whose number of classes only running tells");
  const ValueId values = c.integers_value({0, 1});
  return c.op("OneHot", {c.tensor("self"), c.whole_value(DType::I64, classes), values});
}

// ---- sorting

namespace {

Item::List ordered(Call& c, ValueId x, ValueId count, std::size_t axis, bool largest, bool sorted) {
  const DType dtype = c.dtype_of(x);
  if (is_bool(dtype)) x = c.cast(x, DType::U8);
  const auto made = c.op(2, "TopK", {x, count},
                         {{"axis", static_cast<std::int64_t>(axis)},
                          {"largest", std::int64_t{largest}},
                          {"sorted", std::int64_t{sorted}}});
  return {c.cast(made[0], dtype), made[1]};
}

}  // namespace

// Equal ones in the order in which they stand.
Item sort(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  const bool only_positions = std::string_view(c.detail()) == "positions";
  if (rank == 0)
    return only_positions ? Item(c.whole_value(DType::I64, 0))
                          : Item(Item::List{x, c.whole_value(DType::I64, 0)});
  Item::List made = ordered(c, x, c.sizes_value({c.size(x, axis)}), axis, c.flag("descending"), true);
  return only_positions ? made[1] : Item(std::move(made));
}

Item topk(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  if (rank == 0) return Item::List{x, c.whole_value(DType::I64, 0)};
  return ordered(c, x, c.sizes_value({c.number("k")}), axis, c.flag("largest"), c.flag("sorted"));
}

}  // namespace xyntra::aten
