// Elementwise arithmetic, logic and mathematics: one expression per op.
//
// Narrow floats are computed in f32 and rounded once, at the store.
#include "ops/elementwise/elementwise.h"

namespace xyntra {

using te::Axes;
using te::Buffer;
using te::Expr;
using te::Index;

Expr wide(Expr x) {
  DType type = compute_type(x.dtype());
  return cast(type, std::move(x));
}

namespace formula {
namespace {

// out[i] = operation(a[i], b[i]) with both broadcast.
template <class Operation>
Status binary(FormulaContext& c, Operation operation) {
  Axes i = c.axes(c.out_shape());
  Expr a = wide(broadcast(c.in(0), i)), b = wide(broadcast(c.in(1), i));
  c.write(c.out(), i, operation(a, b));
  return {};
}

// out[i] = operation(… operation(x0[i], x1[i]) …), then finished. Thousands of operands take several stages,
// so that no expression is nested thousands deep.
template <class Operation, class Finish>
Status variadic(FormulaContext& c, Operation operation, Finish finish) {
  constexpr std::size_t kOperandsPerStage = 64;
  Axes i = c.axes(c.out_shape());
  Expr value = wide(broadcast(c.in(0), i));
  for (std::size_t n = 1; n < c.input_count(); ++n) {
    if (n % kOperandsPerStage == 0) {
      Buffer partial = c.map("partial", i, value);
      i = c.axes(c.out_shape());
      value = partial(i);
    }
    value = operation(value, wide(broadcast(c.in(n), i)));
  }
  c.write(c.out(), i, finish(value));
  return {};
}

Expr identity_of(Expr x) { return x; }

// numpy.sign: zero for either zero, NaN for NaN.
Expr sign_of(const Expr& x) {
  Expr one = Expr::number(x.dtype(), 1), zero = Expr::number(x.dtype(), 0);
  if (!is_float(x.dtype()) && !is_signed_integer(x.dtype())) return select(x > 0, one, zero);
  Expr not_positive = select(x < 0, -one, is_float(x.dtype()) ? select(is_nan(x), x, zero) : zero);
  return select(x > 0, one, not_positive);
}

}  // namespace

#define UNARY(name, expression)                                  \
  Status name(FormulaContext& c) {                               \
    return unary(c, [](const Expr& x) { return (expression); }); \
  }
#define BINARY(name, expression)                                                 \
  Status name(FormulaContext& c) {                                               \
    return binary(c, [](const Expr& a, const Expr& b) { return (expression); }); \
  }

UNARY(absolute, abs(x))
UNARY(negate, -x)
UNARY(sign, sign_of(x))
UNARY(ceiling, ceil(x))
UNARY(floor, te::floor(x))
UNARY(round, te::round(x))
UNARY(square_root, sqrt(x))
UNARY(reciprocal, 1 / x)
UNARY(exponential, exp(x))
UNARY(logarithm, log(x))
UNARY(error_function, erf(x))
UNARY(sine, sin(x))
UNARY(cosine, cos(x))
UNARY(tangent, tan(x))
UNARY(arc_sine, asin(x))
UNARY(arc_cosine, acos(x))
UNARY(arc_tangent, atan(x))
UNARY(hyperbolic_sine, sinh(x))
UNARY(hyperbolic_cosine, cosh(x))
UNARY(hyperbolic_tangent, tanh(x))
UNARY(area_sine, asinh(x))
UNARY(area_cosine, acosh(x))
UNARY(area_tangent, atanh(x))
UNARY(bitwise_not, ~x)
UNARY(is_not_a_number, is_nan(x))

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a* b)
BINARY(div, a / b)
BINARY(bitwise_and, a& b)
BINARY(bitwise_or, a | b)
BINARY(bitwise_xor, a ^ b)
BINARY(equal, te::equal(a, b))
BINARY(greater, a > b)
BINARY(greater_or_equal, a >= b)
BINARY(less, a < b)
BINARY(less_or_equal, a <= b)

#undef UNARY
#undef BINARY

Status maximum(FormulaContext& c) {
  return variadic(c, [](const Expr& a, const Expr& b) { return max(a, b); }, identity_of);
}
Status minimum(FormulaContext& c) {
  return variadic(c, [](const Expr& a, const Expr& b) { return min(a, b); }, identity_of);
}
Status sum_of_all(FormulaContext& c) {
  return variadic(c, [](const Expr& a, const Expr& b) { return a + b; }, identity_of);
}
Status mean_of_all(FormulaContext& c) {
  auto count = static_cast<double>(c.input_count());
  return variadic(
      c, [](const Expr& a, const Expr& b) { return a + b; },
      [count](const Expr& sum) { return sum / count; });
}

// The quotient is floored, as by % in Python, or truncated, as by fmod in C.
Status modulus(FormulaContext& c) {
  bool truncating = c.flag("fmod");
  return binary(c, [truncating](const Expr& a, const Expr& b) { return truncating ? rem(a, b) : mod(a, b); });
}

Status bit_shift(FormulaContext& c) {
  const std::string& direction = c.text("direction");
  if (direction != "LEFT" && direction != "RIGHT") {
    return c.fail("direction must be LEFT or RIGHT, not '" + direction + "'");
  }
  bool left = direction == "LEFT";
  return binary(c, [left](const Expr& a, const Expr& b) { return left ? a << b : a >> b; });
}

Status is_infinite(FormulaContext& c) {
  bool positive = c.flag("detect_positive"), negative = c.flag("detect_negative");
  return unary(c, [=](const Expr& x) -> Expr {
    if (positive && negative) return is_inf(x);
    if (!positive && !negative) return Expr::boolean(false);
    return is_inf(x) & (positive ? x > 0 : x < 0);
  });
}

namespace {

// base^exponent modulo 2^n by squaring. 63 is the largest exponent that can matter: beyond it a base other
// than -1, 0, 1 has shifted out (even) or is far from any number that was meant. Negative exponents truncate
// the fraction.
Expr integer_power(const Expr& base, const Expr& exponent) {
  DType type = base.dtype();
  Expr one = Expr::integer(type, 1), zero = Expr::integer(type, 0), factor = base, power = one;
  for (int bit = 0; bit < 6; ++bit) {
    power = select(not_equal((exponent >> bit) & 1, 0), power * factor, power);
    if (bit < 5) factor = factor * factor;
  }
  Expr alternating = select(not_equal(exponent & 1, 0), base, one);
  Expr outside = select(te::equal(base, -1), alternating, select(te::equal(base, 1), one, zero));
  return select((exponent >= 0) & (exponent < 64), power, outside);
}

}  // namespace

// The exponent may have another dtype. Integers to integer powers are exact; otherwise the power is taken in
// a float type and converted back, rounded where the exponent is whole: one that is 728.9999 where a device has no fma that
// rounds once, or multiplies and adds at once where it should not, is 729.
Status power(FormulaContext& c) {
  return binary(c, [](const Expr& base, const Expr& exponent) {
    if (is_float(base.dtype())) return pow(base, cast(base.dtype(), exponent));
    if (is_float(exponent.dtype())) {
      Expr y = cast(DType::F64, exponent), power = pow(cast(DType::F64, base), y);
      return select((y > 0) & te::equal(floor(y), y), round(power), power);
    }
    return integer_power(cast(DType::I64, base), cast(DType::I64, exponent));
  });
}

Status where(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr condition = broadcast(c.in(0), i), x = broadcast(c.in(1), i), y = broadcast(c.in(2), i);
  c.write(c.out(), i, select(condition, x, y));
  return {};
}

// max first, then min: with crossed bounds the upper one wins. NaN stays NaN.
Status clip(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr x = wide(c.in(0)(i));
  auto bound = [&c](std::size_t n) { return wide(c.in(n)(Index(c.in(n).rank(), Expr::index(0)))); };
  if (c.has_input(1)) x = max(x, bound(1));
  if (c.has_input(2)) x = min(x, bound(2));
  c.write(c.out(), i, x);
  return {};
}

}  // namespace formula
}  // namespace xyntra
