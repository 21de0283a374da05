// Activation functions.
#include <array>
#include <numbers>

#include "ops/elementwise/elementwise.h"
#include "te/math/math.h"

namespace xyntra {

using te::Axes;
using te::Expr;

Expr gelu_exact(const Expr& x) { return x * normal_cdf(x); }

Expr gelu_tanh(const Expr& x) {
  const double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1 + tanh(kScale * (x + 0.044715 * x * x * x)));
}

namespace {

// x (1/2 + z P(z²)) with z = x held to where the function is 0 or x: within 5e-5 of what it stands for, as much as a
// result needs that is rounded to bf16. z P(z²) is ±1/2 at both ends to the last digit.
struct ShortGelu {
  double end;
  std::array<double, 9> coefficients;
};
constexpr ShortGelu kShortExact{
    0x1.1999e2p+2,
    {0x1.9854f6p-2, -0x1.0ea62ap-4, 0x1.3bfb9cp-7, -0x1.148f68p-10, 0x1.618d16p-14, -0x1.3d14d2p-18,
     0x1.75d868p-23, -0x1.01fa3p-28, 0x1.39f8c2p-35}};
constexpr ShortGelu kShortTanh{0x1.13385ap+2,
                               {0x1.9855bp-2, -0x1.0fff6ep-4, 0x1.4381ap-7, -0x1.251f26p-10, 0x1.889a72p-14,
                                -0x1.7316b2p-18, 0x1.cdcb4ap-23, -0x1.501ec2p-28, 0x1.aee23ep-35}};

Expr gelu_short(const ShortGelu& form, const Expr& x) {
  auto number = [&x](double value) { return Expr::number(x.dtype(), value); };
  const Expr below = select(x < form.end, x, number(form.end));
  const Expr z = select(below > -form.end, below, number(-form.end));
  const Expr square = z * z;
  Expr sum = number(form.coefficients.back());
  for (std::size_t i = form.coefficients.size() - 1; i-- > 0;)
    sum = fma(sum, square, number(form.coefficients.at(i)));
  return x * (0.5 + z * sum);
}

struct GeluForm {
  std::string_view name;
  Expr (*formula)(const Expr& x);
};
constexpr GeluForm kGeluForms[] = {
    {"none", gelu_exact},
    {"tanh", gelu_tanh},
    // Not ONNX's: --precision writes them in their place (passes/round_products.h).
    {"short", [](const Expr& x) { return gelu_short(kShortExact, x); }},
    {"short tanh", [](const Expr& x) { return gelu_short(kShortTanh, x); }},
};

}  // namespace

Expr softplus_of(const Expr& x) { return te::softplus(x); }

namespace rule {

// The slope is broadcast to x, never the other way round.
Status prelu(InferenceContext& c) {
  if (c.rank(1) > c.rank(0)) return c.fail("operand 1 (slope) has more dimensions than operand 0 (x)");
  for (std::size_t d = 0; d < c.rank(1); ++d) {
    const Dim &slope = c.dim(1, d), &x = c.dim(0, c.rank(0) - c.rank(1) + d);
    if (slope.is_constant() && x.is_constant() && !slope.is(1) && !(slope == x)) {
      return c.fail("operand 1 (slope) of size " + slope.to_string() + " does not broadcast to " +
                    x.to_string());
    }
  }
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {
namespace {

Expr clamp_to_unit(const Expr& x) { return max(min(x, 1), 0); }

}  // namespace

// alpha, beta and gamma are the op's attributes of that name.
#define ACTIVATION(name, expression)                                              \
  Status name(FormulaContext& c) {                                                \
    auto attribute = [&c](const char* key) {                                      \
      return c.has_attribute(key) ? static_cast<double>(c.real(key)) : 0.;        \
    };                                                                            \
    [[maybe_unused]] double alpha = attribute("alpha"), beta = attribute("beta"), \
                            gamma = attribute("gamma");                           \
    return unary(c, [=](const Expr& x) { return (expression); });                 \
  }

ACTIVATION(relu, select(x < 0, Expr::number(x.dtype(), 0), x))  // -0 stays -0
ACTIVATION(leaky_relu, select(x < 0, alpha* x, x))
ACTIVATION(elu, select(x < 0, alpha* expm1(x), x))
ACTIVATION(selu, gamma* select(x > 0, x, alpha* expm1(x)))
ACTIVATION(celu, max(x, 0) + min(alpha * expm1(x / alpha), 0))
ACTIVATION(thresholded_relu, select(x > alpha, x, Expr::number(x.dtype(), 0)))
ACTIVATION(hard_sigmoid, clamp_to_unit(alpha* x + beta))
ACTIVATION(hard_swish, x* clamp_to_unit(x / 6 + 0.5))
ACTIVATION(swish, x* sigmoid(alpha* x))
ACTIVATION(logistic, sigmoid(x))
ACTIVATION(softplus, softplus_of(x))
ACTIVATION(softsign, x / (1 + abs(x)))
ACTIVATION(mish, x* tanh(softplus_of(x)))

#undef ACTIVATION

Status gelu(FormulaContext& c) {
  const std::string& approximate = c.text("approximate");
  for (const GeluForm& form : kGeluForms) {
    if (form.name == approximate) return unary(c, form.formula);
  }
  return c.fail("approximate must be none or tanh, not '" + approximate + "'");
}

Status prelu(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr x = wide(c.in(0)(i)), slope = wide(broadcast(c.in(1), i));
  c.write(c.out(), i, is_signed_integer(x.dtype()) || is_float(x.dtype()) ? select(x < 0, slope * x, x) : x);
  return {};
}

// Soft (bias = lambd) or hard (bias = 0) shrinkage; integers are computed as f64.
Status shrink(FormulaContext& c) {
  double lambda = c.real("lambd"), bias = c.real("bias");
  return unary(c, [=](const Expr& narrow) {
    Expr x = is_float(narrow.dtype()) ? narrow : cast(DType::F64, narrow);
    Expr zero = Expr::number(x.dtype(), 0);
    return select(x < -lambda, x + bias, select(x > lambda, x - bias, zero));
  });
}

}  // namespace formula
}  // namespace xyntra
