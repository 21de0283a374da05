// Normalisations, as layers and as what torch decomposes them to.
#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

ValueId vector_of(Call& c, ValueId like, std::int64_t size, double value) {
  auto tensor = Tensor::allocate(c.dtype_of(like), {size});
  if (!tensor) return c.fail(tl::unexpected<Error>(tensor.error()));
  for (std::int64_t i = 0; i < size; ++i) tensor->set_element_f64(i, value);
  return c.constant(std::move(*tensor));
}

// A vector of channels beside a tensor whose axis 1 they are.
ValueId along_channels(Call& c, ValueId vector, std::size_t rank) {
  Sizes sizes(rank < 2 ? 1 : rank - 1, whole(1));
  sizes[0] = c.size(vector, 0);
  return c.reshape(vector, sizes);
}

ValueId mean_of(Call& c, ValueId x, const Integers& axes) {
  return c.op("ReduceMean", {x, c.integers_value(axes)}, {{"keepdims", std::int64_t{1}}});
}

// (x - mean) / sqrt(variance + eps) by what x itself has along the axes.
struct Normalized {
  ValueId y, mean, inverse_deviation;
};
Normalized normalized(Call& c, ValueId x, const Integers& axes, double eps) {
  const DType dtype = c.dtype_of(x);
  const ValueId wide = c.cast(x, bits_of(dtype) < 32 ? DType::F32 : dtype);
  const ValueId mean = mean_of(c, wide, axes);
  const ValueId centred = c.sub(wide, mean);
  const ValueId variance = mean_of(c, c.mul(centred, centred), axes);
  const ValueId inverse =
      c.op("Reciprocal", {c.op("Sqrt", {c.add(variance, c.scalar(c.dtype_of(wide), eps))})});
  return {c.mul(centred, inverse), mean, inverse};
}

struct LayerNorm {
  ValueId y, mean, inverse_deviation;
};

LayerNorm layer_normalized(Call& c, bool statistics) {
  const ValueId x = c.tensor("input");
  ValueId scale = c.tensor("weight"), bias = c.tensor("bias");
  const Sizes inner = c.sizes("normalized_shape");
  const std::size_t rank = c.rank(x);
  if (inner.size() > rank || inner.empty())
    return {c.wrong("normalized_shape has " + std::to_string(inner.size()) + " sizes"), {}, {}};
  const auto axis = static_cast<std::int64_t>(rank - inner.size());
  if (!scale.valid()) {
    const ValueId one = c.whole_value(c.dtype_of(x), 1);
    scale = c.op("Expand", {one, c.sizes_value(inner)});
  }
  std::vector<ValueId> inputs{x, c.cast(scale, c.dtype_of(x))};
  if (bias.valid()) inputs.push_back(c.cast(bias, c.dtype_of(x)));
  const Attributes attributes{{"axis", axis}, {"epsilon", static_cast<float>(c.real("eps"))}};
  const auto made =
      c.op(statistics ? std::size_t{3} : std::size_t{1}, "LayerNormalization", inputs, attributes);
  return {made[0], statistics ? made[1] : ValueId(), statistics ? made[2] : ValueId()};
}

}  // namespace

Item layer_norm(Call& c) { return layer_normalized(c, false).y; }

// The statistics have the dtype of the weight, as on a CPU.
Item native_layer_norm(Call& c) {
  const LayerNorm made = layer_normalized(c, true);
  const DType dtype = c.dtype_of(c.given("weight") ? c.tensor("weight") : c.tensor("input"));
  return Item::List{made.y, c.cast(made.mean, dtype), c.cast(made.inverse_deviation, dtype)};
}

namespace {

ValueId rms_normalized(Call& c) {
  const ValueId x = c.tensor("input");
  const Sizes inner = c.sizes("normalized_shape");
  const std::size_t rank = c.rank(x);
  if (inner.size() > rank || inner.empty())
    return c.wrong("normalized_shape has " + std::to_string(inner.size()) + " sizes");
  ValueId scale = c.tensor("weight");
  if (!scale.valid()) scale = c.op("Expand", {c.whole_value(c.dtype_of(x), 1), c.sizes_value(inner)});
  // Without eps torch takes that of the dtype in which it computes.
  const double epsilon = c.given("eps")                ? c.real("eps")
                         : c.dtype_of(x) == DType::F64 ? 2.220446049250313e-16
                                                       : 1.1920928955078125e-07;
  return c.op(
      "RMSNormalization", {x, scale},
      {{"axis", static_cast<std::int64_t>(rank - inner.size())}, {"epsilon", static_cast<float>(epsilon)}});
}

}  // namespace

Item rms_norm(Call& c) { return rms_normalized(c); }

// The second result is what a gradient needs.
Item fused_rms_norm(Call& c) { return c.only_the_first(rms_normalized(c)); }

namespace {

// Groups of channels by their own mean and variance, then scaled by channel. x is [n, channels, …].
Normalized by_groups(Call& c, ValueId x, std::int64_t groups, double eps) {
  const Sizes sizes = c.shape_numbers(x);
  Dim inner = 1;
  for (std::size_t i = 1; i < c.rank(x); ++i) inner = inner * c.dim(x, i);
  // A size of 0 leaves no room for one that is open.
  const Number each = inner.is_constant() && groups > 0 ? whole(inner.constant() / groups) : whole(-1);
  const Normalized made = normalized(c, c.reshape(x, {sizes[0], whole(groups), each}), {2}, eps);
  return {c.cast(c.reshape(made.y, sizes), c.dtype_of(x)), made.mean, made.inverse_deviation};
}

ValueId affine(Call& c, ValueId x) {
  const ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  const std::size_t rank = c.rank(x);
  if (weight.valid()) x = c.mul(x, along_channels(c, c.cast(weight, c.dtype_of(x)), rank));
  return bias.valid() ? c.add(x, along_channels(c, c.cast(bias, c.dtype_of(x)), rank)) : x;
}

}  // namespace

Item group_norm(Call& c) {
  const ValueId x = c.tensor("input"), weight = c.tensor("weight"), bias = c.tensor("bias");
  if (c.rank(x) < 2) return c.wrong("group_norm of rank " + std::to_string(c.rank(x)));
  const std::int64_t groups = c.integer("num_groups"), channels = c.known_size(x, 1);
  if (groups < 1 || channels % groups != 0) return c.wrong("the channels are no multiple of the groups");
  const ValueId scale = weight.valid() ? c.cast(weight, c.dtype_of(x)) : vector_of(c, x, channels, 1);
  const ValueId shift = bias.valid() ? c.cast(bias, c.dtype_of(x)) : vector_of(c, x, channels, 0);
  return c.op("GroupNormalization", {x, scale, shift},
              {{"num_groups", groups}, {"epsilon", static_cast<float>(c.real("eps"))}});
}

Item native_group_norm(Call& c) {
  const ValueId x = c.tensor("input");
  const Normalized made = by_groups(c, x, c.integer("group"), c.real("eps"));
  return Item::List{affine(c, made.y), c.cast(c.squeeze(made.mean, {2}), c.dtype_of(x)),
                    c.cast(c.squeeze(made.inverse_deviation, {2}), c.dtype_of(x))};
}

Item instance_norm(Call& c) {
  if (!c.flag("use_input_stats")) return c.unsupported("instance_norm with running statistics");
  const ValueId x = c.tensor("input");
  const std::int64_t channels = c.known_size(x, 1);
  const ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  return c.op("InstanceNormalization",
              {x, weight.valid() ? weight : vector_of(c, x, channels, 1),
               bias.valid() ? bias : vector_of(c, x, channels, 0)},
              {{"epsilon", static_cast<float>(c.real("eps"))}});
}

namespace {

// With the statistics of training, which the model has as buffers.
ValueId with_running_statistics(Call& c) {
  const ValueId x = c.tensor("input");
  ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  const ValueId mean = c.tensor("running_mean"), variance = c.tensor("running_var");
  if (!mean.valid() || !variance.valid()) return c.unsupported("batch_norm without running statistics");
  const std::int64_t channels = c.known_size(mean, 0);
  if (!weight.valid()) weight = vector_of(c, mean, channels, 1);
  if (!bias.valid()) bias = vector_of(c, mean, channels, 0);
  return c.op("BatchNormalization", {x, weight, bias, mean, variance},
              {{"epsilon", static_cast<float>(c.real("eps"))}});
}

// With those of the batch.
Normalized with_batch_statistics(Call& c, ValueId x) {
  Integers axes{0};
  for (std::size_t i = 2; i < c.rank(x); ++i) axes.push_back(static_cast<std::int64_t>(i));
  Normalized made = normalized(c, x, axes, c.real("eps"));
  made.y = affine(c, c.cast(made.y, c.dtype_of(x)));
  return made;
}

bool is_training(Call& c) {
  if (c.has("training")) return c.flag("training");
  return std::string_view(c.detail()) == "training";
}

}  // namespace

Item batch_norm(Call& c) {
  if (!is_training(c)) return with_running_statistics(c);
  if (c.given("running_mean"))
    return c.unsupported("batch_norm that updates its running statistics: the model is in training mode");
  return with_batch_statistics(c, c.tensor("input")).y;
}

// The results behind the first are what a gradient needs.
Item native_batch_norm(Call& c) {
  const ValueId x = c.tensor("input");
  const auto empty = [&] { return c.op("Expand", {c.whole_value(c.dtype_of(x), 0), c.integers_value({0})}); };
  if (!is_training(c)) return Item::List{with_running_statistics(c), empty(), empty(), empty()};
  if (c.has("running_mean") && c.given("running_mean"))
    return c.unsupported("batch_norm that updates its running statistics: the model is in training mode");
  const Normalized made = with_batch_statistics(c, x);
  const auto flat = [&](ValueId v) { return c.reshape(v, {whole(-1)}); };
  return Item::List{made.y, flat(made.mean), flat(made.inverse_deviation), empty()};
}

// v * (g / |v|), where the norm is over every axis but one.
Item weight_norm(Call& c) {
  const ValueId v = c.tensor("v"), g = c.tensor("g");
  const std::size_t rank = c.rank(v), kept = c.axis(c.integer("dim"), rank);
  Integers axes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != kept || c.integer("dim") == -1) axes.push_back(static_cast<std::int64_t>(i));
  }
  const ValueId length = c.op("ReduceL2", {v, c.integers_value(axes)}, {{"keepdims", std::int64_t{1}}});
  const ValueId scaled = c.mul(v, c.div(g, length));
  return std::string_view(c.detail()) == "pair" ? Item(Item::List{scaled, length}) : Item(scaled);
}

// Nothing is dropped outside of training.
Item dropout(Call& c) {
  const bool training = c.has("train") && c.given("train") && c.flag("train");
  const double p = c.real("p");
  if (training && p != 0) return c.unsupported("dropout of a model in training mode");
  return c.same(c.has("input") ? "input" : "self");
}

Item native_dropout(Call& c) {
  if (c.given("train") && c.flag("train") && c.real("p") != 0)
    return c.unsupported("dropout of a model in training mode");
  const ValueId x = c.tensor("input");
  return Item::List{x, c.op("Expand", {c.whole_value(DType::Bool, 1), c.op("Shape", {x})})};
}

}  // namespace xyntra::aten
