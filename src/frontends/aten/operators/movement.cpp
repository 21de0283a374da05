// Elements moved, repeated or left out, into tensors of their own.
#include <algorithm>
#include <numeric>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

std::vector<ValueId> promoted_all(Call& c, std::vector<ValueId> parts) {
  std::vector<Operand> operands;
  for (const ValueId part : parts) operands.push_back({part});
  const DType dtype = promoted(c, operands);
  for (ValueId& part : parts) part = c.cast(part, dtype);
  return parts;
}

}  // namespace

// Tensors of the shape [0] are left out, whatever the rank of the others.
Item concatenate(Call& c) {
  std::vector<ValueId> parts = promoted_all(c, c.tensors("tensors"));
  if (parts.empty()) return c.wrong("cat of no tensors");
  std::size_t rank = 0;
  for (const ValueId part : parts) rank = std::max(rank, c.rank(part));
  if (rank > 1) {
    std::erase_if(parts, [&](ValueId part) { return c.rank(part) == 1 && c.dim(part, 0).is(0); });
  }
  return parts.size() == 1 ? parts[0] : c.concat(parts, c.axis(c.integer("dim"), rank));
}

Item stack(Call& c) {
  std::vector<ValueId> parts = promoted_all(c, c.tensors("tensors"));
  if (parts.empty()) return c.wrong("stack of no tensors");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(parts[0]) + 1);
  for (ValueId& part : parts) part = c.unsqueeze(part, {static_cast<std::int64_t>(axis)});
  return c.concat(parts, axis);
}

// hstack, vstack, dstack: concatenation along an axis once every tensor has so many.
Item stacked_along(Call& c) {
  std::vector<ValueId> parts = promoted_all(c, c.tensors("tensors"));
  if (parts.empty()) return c.wrong("a stack of no tensors");
  const std::string_view how = c.detail();
  for (ValueId& part : parts) {
    const std::size_t rank = c.rank(part);
    if (how == "h" && rank == 0) part = c.unsqueeze(part, {0});
    if (how == "v" && rank < 2) part = c.reshape(part, {whole(1), whole(-1)});
    if (how == "d" && rank < 2) part = c.reshape(part, {whole(1), whole(-1), whole(1)});
    if (how == "d" && rank == 2) part = c.unsqueeze(part, {2});
  }
  const std::size_t axis = how == "d" ? 2 : how == "h" && c.rank(parts[0]) > 1 ? 1 : 0;
  return c.concat(parts, axis);
}

Item repeat(Call& c) {
  ValueId x = c.tensor("self");
  Sizes times = c.sizes(c.has("repeats") ? "repeats" : "dims");
  const std::size_t rank = c.rank(x);
  if (times.size() > rank) {
    Integers added(times.size() - rank);
    std::iota(added.begin(), added.end(), 0);
    x = c.unsqueeze(x, added);
  }
  times.insert(times.begin(), c.rank(x) - std::min(c.rank(x), times.size()), whole(1));
  if (std::ranges::all_of(times, [](const Number& n) { return n.is(1); })) return x;
  return c.op("Tile", {x, c.sizes_value(times)});
}

// Every element of an axis so often: y[i * n + k] = x[i].
Item repeat_interleave(Call& c) {
  ValueId x = c.tensor("self");
  const Number times = c.number("repeats");
  if (!c.given("dim")) x = c.reshape(x, {whole(-1)});
  const std::size_t rank = c.rank(x), axis = c.given("dim") ? c.axis(c.integer("dim"), rank) : 0;
  if (rank == 0) return c.unsupported("repeat_interleave of a scalar");
  const ValueId wide = c.unsqueeze(x, {static_cast<std::int64_t>(axis) + 1});
  Sizes repeats(rank + 1, whole(1));
  repeats[axis + 1] = times;
  const ValueId tiled = c.op("Tile", {wide, c.sizes_value(repeats)});
  Sizes sizes;
  for (std::size_t i = 0; i < rank; ++i) sizes.push_back(i == axis ? whole(-1) : c.size(x, i));
  return c.reshape(tiled, sizes);
}

Item flip(Call& c) {
  ValueId x = c.tensor("self");
  Integers axes = c.has("dims") ? c.integers("dims") : Integers{std::string_view(c.detail()) == "lr" ? 1 : 0};
  const std::size_t rank = c.rank(x);
  if (rank == 0) return x;
  for (const std::size_t axis : c.axes(axes, rank))
    x = c.slice(x, axis, whole(-1), whole(std::numeric_limits<std::int64_t>::min()), -1);
  return x;
}

Item roll(Call& c) {
  ValueId x = c.tensor("self");
  const Sizes shifts = c.sizes("shifts");
  Integers dims = c.integers("dims");
  const Sizes sizes = c.shape_numbers(x);
  const bool flat = dims.empty();
  if (flat) {
    x = c.reshape(x, {whole(-1)});
    dims = {0};
  }
  if (dims.size() != shifts.size()) return c.wrong("shifts and dims differ in length");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t axis = c.axis(dims[i], c.rank(x));
    if (c.rank(x) == 0) return x;
    const Number size = c.size(x, axis);
    Number start;  // the element that comes first: -shift modulo the size
    if (size.is_whole() && shifts[i].is_whole()) {
      if (size.whole() == 0) continue;
      const std::int64_t shift = shifts[i].whole() % size.whole();
      start = whole(shift > 0 ? size.whole() - shift : -shift);
      if (start.is(0)) continue;
    } else {
      const ValueId negative = c.op("Neg", {c.as_value(shifts[i], DType::I64)});
      start = c.as_number(c.op("Mod", {negative, c.as_value(size, DType::I64)}), NumberKind::Int);
    }
    x = c.concat({c.slice(x, axis, start, whole(kToTheEnd)), c.slice(x, axis, whole(0), start)}, axis);
  }
  return flat ? c.reshape(x, sizes) : x;
}

Item triangle(Call& c) {
  const std::int64_t upper = std::string_view(c.detail()) == "upper" ? 1 : 0;
  return c.op("Trilu", {c.tensor("self"), c.as_value(c.number("diagonal"), DType::I64)}, {{"upper", upper}});
}

// Channels to blocks of the feature map, and back.
Item pixel_shuffle(Call& c) {
  ValueId x = c.tensor("self");
  const bool down = std::string_view(c.detail()) == "down";
  const std::int64_t factor = c.integer(down ? "downscale_factor" : "upscale_factor");
  const std::size_t rank = c.rank(x);
  if (rank < 3 || factor < 1)
    return c.wrong("pixel_shuffle of rank " + std::to_string(rank) + " by " + std::to_string(factor));
  const Number one = whole(1), f = whole(factor);
  const auto scaled = [&](const Number& size, bool up) {
    if (size.is_whole()) return whole(up ? size.whole() * factor : size.whole() / factor);
    const ValueId value = c.as_value(size, DType::I64), by = c.whole_value(DType::I64, factor);
    return c.as_number(up ? c.mul(value, by) : c.div(value, by), NumberKind::Int);
  };
  Sizes batch;
  for (std::size_t i = 0; i + 3 < rank; ++i) batch.push_back(c.size(x, i));
  const Number channels = whole(c.known_size(x, rank - 3)), height = c.size(x, rank - 2),
               width = c.size(x, rank - 1);
  const auto with_batch = [&](const Sizes& rest) {
    Sizes sizes = batch;
    sizes.insert(sizes.end(), rest.begin(), rest.end());
    return sizes;
  };
  std::vector<std::size_t> order(batch.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t n = batch.size();
  if (!down) {
    const Number kept = whole(channels.whole() / (factor * factor));
    x = c.reshape(x, with_batch({kept, f, f, height, width}));
    for (const std::size_t axis : {0, 3, 1, 4, 2}) order.push_back(n + axis);
    return c.reshape(c.transpose(x, order), with_batch({kept, scaled(height, true), scaled(width, true)}));
  }
  x = c.reshape(x, with_batch({channels, scaled(height, false), f, scaled(width, false), f}));
  for (const std::size_t axis : {0, 2, 4, 1, 3}) order.push_back(n + axis);
  return c.reshape(c.transpose(x, order), with_batch({whole(channels.whole() * factor * factor),
                                                      scaled(height, false), scaled(width, false)}));
}

Item channel_shuffle(Call& c) {
  const ValueId x = c.tensor("self");
  const std::int64_t groups = c.integer("groups"), channels = c.known_size(x, 1);
  if (groups < 1 || channels % groups != 0) return c.wrong("the channels are no multiple of the groups");
  const Sizes sizes = c.shape_numbers(x);
  Sizes split{sizes[0], whole(groups), whole(channels / groups)};
  split.insert(split.end(), sizes.begin() + 2, sizes.end());
  return c.reshape(c.swap_axes(c.reshape(x, split), 1, 2), sizes);
}

Item meshgrid(Call& c) {
  const std::vector<ValueId> parts = c.tensors("tensors");
  const bool swapped = c.has("indexing") && c.text("indexing") == "xy" && parts.size() >= 2;
  // The axis of the grid that a tensor lies along.
  const auto axis_of = [swapped](std::size_t place) { return swapped && place < 2 ? 1 - place : place; };
  Sizes sizes(parts.size(), whole(1));
  for (std::size_t i = 0; i < parts.size(); ++i)
    sizes[axis_of(i)] = c.size(c.reshape(parts[i], {whole(-1)}), 0);
  return c.views_of_list("tensors", [sizes, axis_of](Call& call, std::size_t place, ValueId base) {
    Sizes own(sizes.size(), whole(1));
    own[axis_of(place)] = whole(-1);
    return call.expand(call.reshape(base, own), sizes);
  });
}

Item broadcast_tensors(Call& c) {
  ValueId shape;
  for (const ValueId part : c.tensors("tensors")) {
    const ValueId own = c.op("Shape", {part});
    // Expand is mutual: a tensor of ones of one shape, expanded to the other, has the shape of both.
    shape = shape.valid() ? c.op("Shape", {c.op("Expand", {c.op("ConstantOfShape", {shape}), own})}) : own;
  }
  return c.views_of_list(
      "tensors", [shape](Call& call, std::size_t, ValueId base) { return call.op("Expand", {base, shape}); });
}

Item pad_constant(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = c.dtype_of(x);
  const Sizes pad = c.sizes("pad");
  const std::size_t rank = c.rank(x), count = pad.size() / 2;
  if (pad.size() % 2 != 0 || count > rank)
    return c.wrong("pad has " + std::to_string(pad.size()) + " numbers");
  Sizes before(rank, whole(0)), after(rank, whole(0));
  for (std::size_t i = 0; i < count; ++i) {
    before[rank - 1 - i] = pad[2 * i];
    after[rank - 1 - i] = pad[2 * i + 1];
  }
  before.insert(before.end(), after.begin(), after.end());
  const Number value = c.has("value") && c.given("value") ? c.number("value") : whole(0);
  return c.op("Pad", {x, c.sizes_value(before), c.as_value(value, dtype)},
              {{"mode", std::string("constant")}});
}

// reflection_pad, replication_pad: detail is the mode of Pad.
Item pad_edges(Call& c) {
  const ValueId x = c.tensor("self");
  const Sizes pad = c.sizes("padding");
  const std::size_t rank = c.rank(x), count = pad.size() / 2;
  if (pad.size() % 2 != 0 || count > rank)
    return c.wrong("padding has " + std::to_string(pad.size()) + " numbers");
  Sizes before(rank, whole(0)), after(rank, whole(0));
  for (std::size_t i = 0; i < count; ++i) {
    before[rank - 1 - i] = pad[2 * i];
    after[rank - 1 - i] = pad[2 * i + 1];
  }
  before.insert(before.end(), after.begin(), after.end());
  return c.op("Pad", {x, c.sizes_value(before)}, {{"mode", std::string(c.detail())}});
}

Item pad(Call& c) {
  const std::string mode = c.text("mode");
  if (mode == "constant") return pad_constant(c);
  const std::string_view name = mode == "reflect"     ? "reflect"
                                : mode == "replicate" ? "edge"
                                : mode == "circular"  ? "wrap"
                                                      : "";
  if (name.empty()) return c.wrong("mode '" + mode + "' of pad");
  const ValueId x = c.tensor("self");
  const Sizes amounts = c.sizes("pad");
  const std::size_t rank = c.rank(x), count = amounts.size() / 2;
  if (amounts.size() % 2 != 0 || count > rank)
    return c.wrong("pad has " + std::to_string(amounts.size()) + " numbers");
  Sizes before(rank, whole(0)), after(rank, whole(0));
  for (std::size_t i = 0; i < count; ++i) {
    before[rank - 1 - i] = amounts[2 * i];
    after[rank - 1 - i] = amounts[2 * i + 1];
  }
  before.insert(before.end(), after.begin(), after.end());
  return c.op("Pad", {x, c.sizes_value(before)}, {{"mode", std::string(name)}});
}

}  // namespace xyntra::aten
