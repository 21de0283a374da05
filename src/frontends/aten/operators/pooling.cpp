// Pooling by windows and to a given size, and resampling of feature maps.
#include <algorithm>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

// How many axes a row pools: its detail.
std::size_t pooled_axes(Call& c) { return static_cast<std::size_t>(c.detail()[0] - '0'); }

// Pooling wants a batch axis; without one it is added and taken away again.
struct Batched {
  ValueId x;
  bool added = false;
};
bool takes_maximum(DType dtype) { return is_float(dtype) || bits_of(dtype) == 8; }

Batched batched(Call& c, std::size_t axes) {
  const ValueId x = c.tensor(c.has("input") ? "input" : "self");
  if (c.rank(x) == axes + 2) return {x};
  if (c.rank(x) == axes + 1) return {c.unsqueeze(x, {0}), true};
  c.wrong("pooling of rank " + std::to_string(c.rank(x)));
  return {x};
}
ValueId unbatched(Call& c, ValueId y, const Batched& x) { return x.added ? c.squeeze(y, {0}) : y; }

Attributes window(Call& c, std::size_t axes) {
  const Integers kernel = spread(c.integers("kernel_size"), axes);
  Integers stride = c.has("stride") ? spread(c.integers("stride"), axes) : Integers{};
  if (stride.empty()) stride = kernel;
  Integers pads = spread(c.integers("padding"), axes);
  pads.insert(pads.end(), pads.begin(), pads.end());
  Attributes attributes{{"kernel_shape", kernel}, {"strides", stride}, {"pads", pads}};
  attributes["ceil_mode"] = std::int64_t{c.has("ceil_mode") && c.flag("ceil_mode")};
  if (c.has("dilation")) attributes["dilations"] = spread(c.integers("dilation"), axes);
  return attributes;
}

}  // namespace

Item max_pool(Call& c) {
  const std::size_t axes = pooled_axes(c);
  const Batched x = batched(c, axes);
  if (!takes_maximum(c.dtype_of(x.x))) return c.unsupported("max pooling of whole numbers wider than a byte");
  return unbatched(c, c.op("MaxPool", {x.x}, window(c, axes)), x);
}

// Positions count within a feature map.
Item max_pool_with_indices(Call& c) {
  const std::size_t axes = pooled_axes(c);
  const Batched x = batched(c, axes);
  if (!takes_maximum(c.dtype_of(x.x))) return c.unsupported("max pooling of whole numbers wider than a byte");
  const auto made = c.op(2, "MaxPool", {x.x}, window(c, axes));
  ValueId size = c.whole_value(DType::I64, 1);
  for (std::size_t i = 2; i < c.rank(x.x); ++i) size = c.mul(size, c.as_value(c.size(x.x, i), DType::I64));
  return Item::List{unbatched(c, made[0], x), unbatched(c, c.op("Mod", {made[1], size}), x)};
}

Item average_pool(Call& c) {
  const std::size_t axes = pooled_axes(c);
  const Batched x = batched(c, axes);
  if (!is_float(c.dtype_of(x.x))) return c.unsupported("average pooling of whole numbers");
  Attributes attributes = window(c, axes);
  const bool overridden = c.has("divisor_override") && c.given("divisor_override");
  attributes["count_include_pad"] = std::int64_t{overridden || c.flag("count_include_pad")};
  ValueId y = c.op("AveragePool", {x.x}, attributes);
  if (overridden) {
    if (c.flag("ceil_mode")) return c.unsupported("divisor_override with ceil_mode");
    double count = 1;
    for (const std::int64_t size : spread(c.integers("kernel_size"), axes))
      count *= static_cast<double>(size);
    y = c.mul(y, c.scalar(c.dtype_of(y), count / static_cast<double>(c.integer("divisor_override"))));
  }
  return unbatched(c, y, x);
}

// ---- to a given size: window i of n is [floor(i * size / n), ceil((i + 1) * size / n))

namespace {

struct Window {
  std::int64_t start, end;
};
Window adaptive_window(std::int64_t i, std::int64_t size, std::int64_t windows) {
  return {i * size / windows, ((i + 1) * size + windows - 1) / windows};
}

constexpr std::int64_t kMostElements = std::int64_t{1} << 22;

// The mean of each window of one axis is a matmul with a matrix of weights.
ValueId averaged(Call& c, ValueId x, std::size_t axis, std::int64_t size, std::int64_t windows) {
  if (size * windows > kMostElements)
    return c.unsupported("adaptive pooling of " + std::to_string(size) + " to " + std::to_string(windows));
  auto weights = Tensor::allocate(c.dtype_of(x), {size, windows});
  if (!weights) return c.fail(tl::unexpected<Error>(weights.error()));
  for (std::int64_t i = 0; i < windows; ++i) {
    const Window w = adaptive_window(i, size, windows);
    for (std::int64_t k = w.start; k < w.end; ++k)
      weights->set_element_f64(k * windows + i, 1.0 / static_cast<double>(w.end - w.start));
  }
  const std::size_t last = c.rank(x) - 1;
  return c.swap_axes(c.op("MatMul", {c.swap_axes(x, axis, last), c.constant(std::move(*weights))}), axis,
                     last);
}

// The largest of each window: its elements by index, the last one again where a window is shorter.
ValueId largest(Call& c, ValueId x, std::size_t axis, std::int64_t size, std::int64_t windows) {
  std::int64_t longest = 1;
  for (std::int64_t i = 0; i < windows; ++i) {
    const Window w = adaptive_window(i, size, windows);
    longest = std::max(longest, w.end - w.start);
  }
  if (longest * windows > kMostElements)
    return c.unsupported("adaptive pooling of " + std::to_string(size) + " to " + std::to_string(windows));
  Integers index;
  for (std::int64_t i = 0; i < windows; ++i) {
    const Window w = adaptive_window(i, size, windows);
    for (std::int64_t k = 0; k < longest; ++k) index.push_back(std::min(w.start + k, w.end - 1));
  }
  const ValueId table = c.reshape(c.integers_value(index), {whole(windows), whole(longest)});
  const auto at = static_cast<std::int64_t>(axis);
  const ValueId parts = c.op("Gather", {x, table}, {{"axis", at}});
  return c.op("ReduceMax", {parts, c.integers_value({at + 1})}, {{"keepdims", std::int64_t{0}}});
}

using Targets = std::vector<std::optional<std::int64_t>>;  // none: as it is

Targets targets_of(Call& c, std::size_t axes) {
  const Item::List* asked = c.argument("output_size").list();
  Targets targets;
  if (asked != nullptr) {
    for (const Item& item : *asked) {
      const Number* number = item.number();
      if (number == nullptr && !item.is_none()) c.wrong("output_size is not a list of sizes");
      if (number != nullptr && !number->is_whole()) c.unsupported("adaptive pooling to an open size");
      if (c.failed()) return Targets(axes);
      targets.push_back(number == nullptr ? std::nullopt : std::optional(number->whole()));
    }
  } else {
    targets.assign(1, c.integer("output_size"));
  }
  if (targets.size() == 1) targets.resize(axes, targets[0]);
  if (targets.size() != axes) c.wrong("output_size has " + std::to_string(targets.size()) + " sizes");
  targets.resize(axes);
  return targets;
}

// Where in a feature map the largest of each window is: which of its elements, found in a table of places. None where sizes are not known.
Item positions(Call& c, const Batched& in, const Targets& targets) {
  const std::size_t axes = targets.size();
  struct Axis {
    std::int64_t windows, longest = 1;
    Integers index;  // [windows, longest]
  };
  std::vector<Axis> by_axis;
  std::int64_t windows = 1, longest = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    const Dim size = c.dim(in.x, i + 2);
    if (!size.is_constant()) return {};
    Axis axis{.windows = targets[i].value_or(size.constant()), .index = {}};
    if (axis.windows < 1 || size.constant() < 1) return {};
    for (std::int64_t w = 0; w < axis.windows; ++w) {
      const Window window = adaptive_window(w, size.constant(), axis.windows);
      axis.longest = std::max(axis.longest, window.end - window.start);
    }
    windows *= axis.windows;
    longest *= axis.longest;
    if (windows * longest > kMostElements) return {};
    for (std::int64_t w = 0; w < axis.windows; ++w) {
      const Window window = adaptive_window(w, size.constant(), axis.windows);
      for (std::int64_t k = 0; k < axis.longest; ++k)
        axis.index.push_back(std::min(window.start + k, window.end - 1));
    }
    by_axis.push_back(std::move(axis));
  }
  // x as [N, C, windows…, longest…], places as [windows…, longest…]
  ValueId parts = in.x, places = c.whole_value(DType::I64, 0);
  std::vector<std::size_t> order{0, 1};
  Sizes shape = c.shape_numbers(in.x), own;
  shape.resize(2);
  for (std::size_t i = 0; i < axes; ++i) {
    const Axis& axis = by_axis[i];
    const ValueId table = c.reshape(c.integers_value(axis.index), {whole(axis.windows), whole(axis.longest)});
    parts = c.op("Gather", {parts, table}, {{"axis", static_cast<std::int64_t>(2 + 2 * i)}});
    order.push_back(2 + 2 * i);
    shape.push_back(whole(axis.windows));
    Sizes along(2 * axes, whole(1));
    along[i] = whole(axis.windows);
    along[axes + i] = whole(axis.longest);
    const ValueId scaled = c.mul(places, c.as_value(c.size(in.x, i + 2), DType::I64));
    places = c.add(scaled, c.reshape(c.integers_value(axis.index), along));
  }
  for (std::size_t i = 0; i < axes; ++i) order.push_back(3 + 2 * i);
  own.assign(shape.begin() + 2, shape.end());
  shape.push_back(whole(longest));
  own.push_back(whole(longest));
  parts = c.reshape(c.transpose(parts, order), shape);
  const auto last = static_cast<std::int64_t>(axes + 2);
  const ValueId which = c.op("ArgMax", {parts}, {{"axis", last}, {"keepdims", std::int64_t{1}}});
  const ValueId spread_places = c.expand(c.reshape(places, own), shape);
  return unbatched(c, c.squeeze(c.op("GatherElements", {spread_places, which}, {{"axis", last}}), {last}),
                   in);
}

ValueId adaptive(Call& c, const Batched& in, const Targets& targets, bool average) {
  ValueId x = in.x;
  const std::size_t axes = targets.size();
  Integers to_one, kernel;
  bool divides = true;
  for (std::size_t i = 0; i < axes; ++i) {
    const Dim size = c.dim(x, i + 2);
    if (targets[i] == 1) to_one.push_back(static_cast<std::int64_t>(i) + 2);
    const std::int64_t target = targets[i].value_or(size.is_constant() ? size.constant() : 0);
    divides = divides && size.is_constant() && target > 0 && size.constant() % target == 0;
    kernel.push_back(divides ? size.constant() / target : 1);
  }
  const char* reduction = average ? "ReduceMean" : "ReduceMax";
  if (to_one.size() == axes) {
    x = c.op(reduction, {x, c.integers_value(to_one)}, {{"keepdims", std::int64_t{1}}});
  } else if (divides) {
    x = c.op(average ? "AveragePool" : "MaxPool", {x}, {{"kernel_shape", kernel}, {"strides", kernel}});
  } else {
    for (std::size_t i = 0; i < axes && !c.failed(); ++i) {
      if (!targets[i]) continue;
      if (*targets[i] == 1) {
        x = c.op(reduction, {x, c.integers_value({static_cast<std::int64_t>(i) + 2})},
                 {{"keepdims", std::int64_t{1}}});
        continue;
      }
      const std::int64_t size = c.known_size(x, i + 2);
      if (size == *targets[i]) continue;
      if (*targets[i] < 1 || size < 1) return c.unsupported("adaptive pooling of or to nothing");
      x = average ? averaged(c, x, i + 2, size, *targets[i]) : largest(c, x, i + 2, size, *targets[i]);
    }
  }
  return unbatched(c, x, in);
}

}  // namespace

Item adaptive_average_pool(Call& c) {
  const std::size_t axes = pooled_axes(c);
  const Batched in = batched(c, axes);
  const Targets targets = targets_of(c, axes);
  return c.failed() ? Item() : adaptive(c, in, targets, true);
}

Item adaptive_max_pool(Call& c) {
  const std::size_t axes = pooled_axes(c);
  const Batched in = batched(c, axes);
  const Targets targets = targets_of(c, axes);
  if (c.failed()) return {};
  return Item::List{adaptive(c, in, targets, false), positions(c, in, targets)};
}

// ---- resampling

namespace {

struct Resampling {
  const char* mode;
  const char* coordinates;
  const char* nearest = "floor";
  bool antialias = false;
  float cubic = -0.75F;
};

Resampling resampling_of(Call& c) {
  const std::string_view detail = c.detail();
  const bool aligned = c.has("align_corners") && c.flag("align_corners");
  if (aligned && std::string_view(c.detail()).ends_with("antialias"))
    c.unsupported("antialias between aligned corners");
  const char* pixels = aligned ? "align_corners" : "half_pixel";
  if (detail == "nearest") return {"nearest", "asymmetric"};
  if (detail == "nearest_exact") return {"nearest", "half_pixel", "round_prefer_ceil"};
  if (detail == "linear") return {"linear", pixels};
  if (detail == "cubic") return {"cubic", pixels};
  if (detail == "linear_antialias") return {"linear", pixels, "floor", true};
  return {"cubic", pixels, "floor", true, -0.5F};
}

}  // namespace

// By scales where they are given, else to a size.
Item upsample(Call& c) {
  const ValueId x = c.tensor(c.has("input") ? "input" : "self");
  const std::size_t rank = c.rank(x), axes = rank - 2;
  if (rank < 3) return c.wrong("upsampling of rank " + std::to_string(rank));
  const Resampling how = resampling_of(c);
  std::vector<float> scales;
  if (c.has("scale_factors")) {
    for (const double scale : c.reals("scale_factors")) scales.push_back(static_cast<float>(scale));
  } else {
    for (const char* name : {"scales", "scales_d", "scales_h", "scales_w"}) {
      if (c.has(name) && c.given(name)) scales.push_back(static_cast<float>(c.real(name)));
    }
  }
  Attributes attributes{{"mode", std::string(how.mode)},
                        {"coordinate_transformation_mode", std::string(how.coordinates)},
                        {"nearest_mode", std::string(how.nearest)},
                        {"cubic_coeff_a", how.cubic},
                        {"antialias", std::int64_t{how.antialias}},
                        {"exclude_outside", std::int64_t{how.antialias}}};
  const std::string_view coordinates = how.coordinates;
  // Between corners the scale is that of the sizes.
  if (scales.size() == axes && coordinates != "align_corners") {
    const Sizes asked = c.has("self") ? c.sizes("output_size") : Sizes{};
    for (std::size_t i = 0; i < asked.size() && i < axes; ++i) {
      const Number size = c.size(x, i + 2);
      if (size.is_whole() && asked[i].is_whole() &&
          static_cast<std::int64_t>(static_cast<double>(size.whole()) * static_cast<double>(scales[i])) !=
              asked[i].whole())
        return c.unsupported("a size that is not that of its scales");
    }
    scales.insert(scales.begin(), {1.0F, 1.0F});
    const auto count = static_cast<std::int64_t>(scales.size());
    const ValueId list = c.constant(Tensor::from<float>(DType::F32, {count}, scales));
    return c.op("Resize", {x, ValueId(), list}, std::move(attributes));
  }
  Sizes sizes{c.size(x, 0), c.size(x, 1)};
  if (c.given("output_size")) {
    const Sizes asked = c.sizes("output_size");
    sizes.insert(sizes.end(), asked.begin(), asked.end());
  } else {
    for (std::size_t i = 0; i < axes && i < scales.size(); ++i) {
      const std::int64_t size = c.known_size(x, i + 2);
      sizes.push_back(
          whole(static_cast<std::int64_t>(static_cast<double>(size) * static_cast<double>(scales[i]))));
    }
  }
  if (sizes.size() != rank) return c.wrong("neither output_size nor scale_factors fits the operand");
  return c.op("Resize", {x, ValueId(), ValueId(), c.sizes_value(sizes)}, std::move(attributes));
}

Item grid_sample(Call& c) {
  constexpr const char* kModes[] = {"linear", "nearest", "cubic"};
  constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  const std::int64_t mode = c.integer("interpolation_mode"), padding = c.integer("padding_mode");
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return c.wrong("interpolation_mode or padding_mode is not one of torch's");
  const char* mode_name = kModes[static_cast<std::size_t>(mode)];
  const char* padding_name = kPaddings[static_cast<std::size_t>(padding)];
  return c.op("GridSample", {c.tensor("input"), c.tensor("grid")},
              {{"mode", std::string(mode_name)},
               {"padding_mode", std::string(padding_name)},
               {"align_corners", std::int64_t{c.flag("align_corners")}}});
}

Item affine_grid(Call& c) {
  return c.op("AffineGrid", {c.tensor("theta"), c.sizes_value(c.sizes("size"))},
              {{"align_corners", std::int64_t{c.flag("align_corners")}}});
}

// Columns of an image's blocks, and back.
Item columns_to_image(Call& c) {
  Integers pads = spread(c.integers("padding"), 2);
  pads.insert(pads.end(), pads.begin(), pads.end());
  ValueId x = c.tensor("self");
  const bool unbatched = c.rank(x) == 2;
  if (unbatched) x = c.unsqueeze(x, {0});
  const ValueId y =
      c.op("Col2Im",
           {x, c.sizes_value(c.sizes("output_size")), c.integers_value(spread(c.integers("kernel_size"), 2))},
           {{"dilations", spread(c.integers("dilation"), 2)},
            {"strides", spread(c.integers("stride"), 2)},
            {"pads", pads}});
  return unbatched ? c.squeeze(y, {0}) : y;
}

Item image_to_columns(Call& c) {
  ValueId x = c.tensor("self");
  const bool unbatched = c.rank(x) == 3;
  if (unbatched) x = c.unsqueeze(x, {0});
  const Integers kernel = spread(c.integers("kernel_size"), 2), dilation = spread(c.integers("dilation"), 2);
  const Integers padding = spread(c.integers("padding"), 2), stride = spread(c.integers("stride"), 2);
  if (c.failed() || c.rank(x) != 4) return c.wrong("im2col of this rank");
  const std::int64_t channels = c.known_size(x, 1), height = c.known_size(x, 2), width = c.known_size(x, 3);
  x = c.op("Pad", {x, c.integers_value({0, 0, padding[0], padding[1], 0, 0, padding[0], padding[1]})});
  const auto table = [&](std::size_t axis, std::int64_t extent) -> ValueId {
    const std::int64_t count =
        (extent + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1;
    if (count < 1 || count * kernel[axis] > kMostElements) return c.wrong("im2col with these windows");
    Integers index;
    for (std::int64_t k = 0; k < kernel[axis]; ++k) {
      for (std::int64_t i = 0; i < count; ++i) index.push_back(i * stride[axis] + k * dilation[axis]);
    }
    return c.reshape(c.integers_value(index), {whole(kernel[axis]), whole(count)});
  };
  x = c.op("Gather", {x, table(0, height)}, {{"axis", std::int64_t{2}}});  // n c kh oh w
  x = c.op("Gather", {x, table(1, width)}, {{"axis", std::int64_t{4}}});  // n c kh oh kw ow
  x = c.transpose(x, {0, 1, 2, 4, 3, 5});
  const Number batch = c.size(x, 0);
  x = c.reshape(
      x, {batch, whole(channels * kernel[0] * kernel[1]), whole(c.known_size(x, 4) * c.known_size(x, 5))});
  return unbatched ? c.squeeze(x, {0}) : x;
}

}  // namespace xyntra::aten
