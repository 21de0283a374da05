// Random tensors, as formulas over (seed, node, index).
#include "te/math/random.h"

#include <bit>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/random.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Reducer;

std::uint64_t node_key(const OpContext& c) {
  std::uint64_t seed = 0;
  if (c.has_attribute("seed")) {
    bool real = c.def().attribute("seed")->kind == "float";
    seed =
        real ? std::bit_cast<std::uint32_t>(c.real("seed")) : static_cast<std::uint64_t>(c.integer("seed"));
  }
  return te::random_key(seed, c.node().origin);
}

namespace rule {

Status random_shape(InferenceContext& c) {
  XYNTRA_TRY(DType dtype, dtype_attribute(c, "dtype"));
  c.set_dtype(0, dtype);
  Shape shape;
  for (std::int64_t extent : c.integers("shape")) {
    if (extent < 0) return c.fail("attribute 'shape' has the negative size " + std::to_string(extent));
    shape.push_back(extent);
  }
  c.set_shape(0, std::move(shape));
  return {};
}

Status random_like(InferenceContext& c) {
  DType dtype = c.dtype(0);
  if (c.has_attribute("dtype")) {
    XYNTRA_TRY(dtype, dtype_attribute(c, "dtype"));
  }
  c.set_dtype(0, dtype);
  c.set_shape(0, c.shape(0));
  return {};
}

Status multinomial(InferenceContext& c) {
  if (c.rank(0) != 2) return c.fail("operand 0 (x) must have two dimensions, batch and class");
  if (c.integer("sample_size") < 0) return c.fail("sample_size must not be negative");
  XYNTRA_TRY(DType dtype, dtype_attribute(c, "dtype"));
  c.set_dtype(0, dtype);
  c.set_shape(0, {c.dim(0, 0), c.integer("sample_size")});
  return {};
}

}  // namespace rule

namespace formula {
namespace {

Status check_float(const FormulaContext& c) {
  if (is_float(c.out_dtype())) return {};
  return c.fail("random numbers must be floats, not " + std::string(name_of(c.out_dtype())));
}

}  // namespace

Status random_uniform(FormulaContext& c) {
  XYNTRA_CHECK_OK(check_float(c));
  Axes i = c.axes(c.out_shape());
  double low = c.real("low"), high = c.real("high");
  Expr u = te::random_uniform(compute_type(c.out_dtype()), node_key(c), te::linear_index(i));
  c.write(c.out(), i, u * (high - low) + low);
  return {};
}

Status random_normal(FormulaContext& c) {
  XYNTRA_CHECK_OK(check_float(c));
  Axes i = c.axes(c.out_shape());
  Expr z = te::random_normal(compute_type(c.out_dtype()), node_key(c), te::linear_index(i));
  c.write(c.out(), i, z * c.real("scale") + c.real("mean"));
  return {};
}

// y[i] = 1 with probability x[i].
Status bernoulli(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr probability = wide(c.in(0)(i));
  Expr u = te::random_uniform(probability.dtype(), node_key(c), te::linear_index(i));
  c.write(c.out(), i, cast(c.out_dtype(), u < probability));
  return {};
}

// x holds logarithms of unnormalised probabilities. Inverts the distribution function: the sample is the
// number of classes whose cumulated weight does not reach u times the total.
Status multinomial(FormulaContext& c) {
  Buffer x = c.in(0);
  DType type = compute_type(x.dtype());
  Axis batch = c.axis(x.dim(0), "b"), k = c.axis(x.dim(1), "k");
  Buffer m = c.reduce("m", {batch}, Reducer::Max, {k}, wide(x(batch, k)));
  Buffer cumulated = c.temporary("cumulated", type, x.shape());
  Buffer s = c.carry("s", type, {batch}, Expr::number(type, 0));
  Axis t = c.begin_scan(x.dim(1), {s});
  c.next(s, {batch}, s(batch) + exp(wide(x(batch, t)) - m(batch)));
  c.write_at(cumulated, {batch}, {batch, t}, c.next_of(s)(batch));
  c.end_scan();
  Axes out{batch, c.axis(c.out_shape()[1], "i")};
  Expr threshold = te::random_uniform(type, node_key(c), te::linear_index(out)) * s(batch);
  Expr passed = cast(DType::I64, cumulated(batch, k) <= threshold);
  c.write_reduced(c.out(), out, Reducer::Sum, {k}, passed,
                  [&](const Expr& count) { return min(count, Expr::size(x.dim(1) - 1)); });
  return {};
}

}  // namespace formula
}  // namespace xyntra
