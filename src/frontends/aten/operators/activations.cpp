// Activations, with the parameters that torch gives them.
#include <limits>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

float parameter(Call& c, std::string_view name) { return static_cast<float>(c.real(name)); }

}  // namespace

Item relu(Call& c) {
  const ValueId x = c.tensor("self");
  return is_float(c.dtype_of(x)) || is_signed_integer(c.dtype_of(x)) ? c.op("Relu", {x}) : x;
}

Item relu6(Call& c) {
  const ValueId x = c.tensor("self");
  return c.op("Clip", {x, c.whole_value(c.dtype_of(x), 0), c.whole_value(c.dtype_of(x), 6)});
}

Item hardtanh(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = c.dtype_of(x);
  return c.op("Clip", {x, c.as_value(c.number("min_val"), dtype), c.as_value(c.number("max_val"), dtype)});
}

Item leaky_relu(Call& c) {
  return c.op("LeakyRelu", {c.tensor("self")}, {{"alpha", parameter(c, "negative_slope")}});
}

// scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1))
Item elu(Call& c) {
  const ValueId x = c.tensor("self");
  const double scale = c.real("scale"), input_scale = c.real("input_scale");
  if (input_scale != 1) return c.unsupported("elu with an input_scale");
  const ValueId y = c.op("Elu", {x}, {{"alpha", parameter(c, "alpha")}});
  return scale == 1 ? y : c.mul(y, c.scalar(c.dtype_of(x), scale));
}

Item celu(Call& c) { return c.op("Celu", {c.tensor("self")}, {{"alpha", parameter(c, "alpha")}}); }

Item gelu(Call& c) { return c.op("Gelu", {c.tensor("self")}, {{"approximate", c.text("approximate")}}); }

Item hard_sigmoid(Call& c) {
  return c.op("HardSigmoid", {c.tensor("self")}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}});
}

// log(1 + exp(beta x)) / beta; x itself beyond the threshold
Item softplus(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = c.dtype_of(x);
  const double beta = c.real("beta"), threshold = c.real("threshold");
  const ValueId factor = c.scalar(dtype, beta);
  const ValueId scaled = beta == 1 ? x : c.mul(x, factor);
  ValueId y = c.op("Softplus", {scaled});
  if (beta != 1) y = c.div(y, factor);
  // Softplus is its argument to the last bit where that is large.
  if (threshold >= 20) return y;
  return c.where(c.op("Greater", {scaled, c.scalar(dtype, threshold)}), x, y);
}

namespace {
ValueId logarithm_of_sigmoid(Call& c) {
  return c.op("Neg", {c.op("Softplus", {c.op("Neg", {c.tensor("self")})})});
}
}  // namespace

Item log_sigmoid(Call& c) { return logarithm_of_sigmoid(c); }

// The second result is what a gradient needs.
Item log_sigmoid_forward(Call& c) { return c.only_the_first(logarithm_of_sigmoid(c)); }

Item prelu(Call& c) {
  const ValueId x = c.tensor("self"), weight = c.tensor("weight");
  const std::size_t rank = c.rank(x);
  if (c.rank(weight) == 1 && rank == 0) return c.op("PRelu", {x, c.reshape(weight, {})});
  if (c.rank(weight) != 1 || rank < 2) return c.op("PRelu", {x, weight});
  Sizes sizes(rank - 1, Number::of(std::int64_t{1}));
  sizes[0] = c.size(weight, 0);
  return c.op("PRelu", {x, c.reshape(weight, sizes)});
}

Item glu(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const auto halves =
      c.op(2, "Split", {x}, {{"axis", static_cast<std::int64_t>(axis)}, {"num_outputs", std::int64_t{2}}});
  return c.mul(halves[0], c.op("Sigmoid", {halves[1]}));
}

Item threshold(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = c.dtype_of(x);
  const ValueId above = c.op("LessOrEqual", {x, c.as_value(c.number("threshold"), dtype)});
  return c.where(above, c.as_value(c.number("value"), dtype), x);
}

Item shrink(Call& c) {
  const float lambd = parameter(c, "lambd");
  const float bias = std::string_view(c.detail()) == "soft" ? lambd : 0.0F;
  return c.op("Shrink", {c.tensor("self")}, {{"lambd", lambd}, {"bias", bias}});
}

namespace {
Item along_axis(Call& c, const char* op) {
  ValueId x = c.tensor("self");
  if (const auto dtype = c.has("dtype") ? c.dtype("dtype") : std::nullopt) x = c.cast(x, *dtype);
  if (c.has("half_to_float") && c.flag("half_to_float")) x = c.cast(x, DType::F32);
  if (!is_float(c.dtype_of(x))) return c.unsupported("softmax of whole numbers");
  const std::size_t rank = c.rank(x);
  const std::size_t axis = c.axis(c.integer("dim"), rank);
  if (rank == 0) return c.squeeze(c.op(op, {c.unsqueeze(x, {0})}, {{"axis", std::int64_t{0}}}), {0});
  return c.op(op, {x}, {{"axis", static_cast<std::int64_t>(axis)}});
}
}  // namespace

// A row of nothing but -inf is 0.
Item safe_softmax(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  const Item plain = along_axis(c, "Softmax");
  if (c.failed()) return plain;
  const ValueId y = c.read(*plain.tensor());
  const ValueId highest = c.op("ReduceMax", {x, c.integers_value({static_cast<std::int64_t>(axis)})},
                               {{"keepdims", std::int64_t{1}}});
  const ValueId masked = c.op("IsInf", {highest}, {{"detect_positive", std::int64_t{0}}});
  return c.where(masked, c.scalar(c.dtype_of(y), 0), y);
}

Item softmax(Call& c) { return along_axis(c, "Softmax"); }
Item log_softmax(Call& c) { return along_axis(c, "LogSoftmax"); }

}  // namespace xyntra::aten
