// Element by element: arithmetic with torch's promotion, comparisons, logic, mathematics.
#include <cmath>
#include <numbers>
#include <optional>

#include "frontends/aten/translate.h"
#include "types/float_formats.h"

namespace xyntra::aten {
namespace {

bool is_narrow(DType dtype) { return is_float(dtype) && bits_of(dtype) < 32; }

// torch keeps a number beside narrow floats in f32, so one that the narrow type lacks must not be rounded to it.
bool needs_f32(DType dtype, const Operand& operand) {
  if (!is_narrow(dtype) || !operand.number) return false;
  if (!operand.number->is_known()) return true;
  const auto number = static_cast<float>(operand.number->real());
  return !std::isnan(number) && round_to(dtype, number) != number;
}

struct Pair {
  ValueId a, b;
  DType computed, result;
};

Pair operands(Call& c, DType result) {
  const Operand a = c.operand("self"), b = c.operand("other");
  const DType computed = needs_f32(result, a) || needs_f32(result, b) ? DType::F32 : result;
  return {c.as_value(a, computed), c.as_value(b, computed), computed, result};
}

DType promoted_pair(Call& c) {
  const Operand both[] = {c.operand("self"), c.operand("other")};
  return promoted(c, both);
}

DType as_float(DType dtype) { return is_float(dtype) ? dtype : DType::F32; }

ValueId truncated(Call& c, ValueId x) {
  const ValueId zero = c.scalar(c.dtype_of(x), 0);
  return c.where(c.op("Less", {x, zero}), c.op("Ceil", {x}), c.op("Floor", {x}));
}

// Where a remainder with the sign of the dividend is that of the other side.
ValueId sign_differs(Call& c, ValueId remainder, ValueId divisor) {
  const ValueId zero = c.whole_value(c.dtype_of(remainder), 0);
  const ValueId some = c.op("Not", {c.op("Equal", {remainder, zero})});
  const ValueId differs = c.op("Xor", {c.op("Less", {remainder, zero}), c.op("Less", {divisor, zero})});
  return c.op("And", {some, differs});
}

// A whole number of rank 0 whose value is known now.
std::optional<std::int64_t> known_whole(Call& c, ValueId x) {
  if (is_float(c.dtype_of(x)) || c.rank(x) != 0) return std::nullopt;
  const Number number = c.as_number(x, NumberKind::Int);
  return number.is_whole() ? std::optional(number.whole()) : std::nullopt;
}

// Towards minus infinity as torch computes it: of floats from the exact remainder.
ValueId floor_quotient(Call& c, ValueId a, ValueId b) {
  const DType dtype = c.dtype_of(a);
  const auto known_a = known_whole(c, a), known_b = known_whole(c, b);
  if (known_a && known_b && *known_b > 0) {
    const std::int64_t quotient = *known_a / *known_b;
    return c.whole_value(dtype, quotient - (*known_a % *known_b < 0));
  }
  const ValueId one = c.whole_value(dtype, 1);
  if (!is_float(dtype)) {
    const ValueId quotient = c.div(a, b);
    const ValueId adjust = sign_differs(c, c.sub(a, c.mul(quotient, b)), b);
    return c.where(adjust, c.sub(quotient, one), quotient);
  }
  const ValueId remainder = c.op("Mod", {a, b}, {{"fmod", std::int64_t{1}}});
  const ValueId exact = c.div(c.sub(a, remainder), b);
  const ValueId lower = c.where(sign_differs(c, remainder, b), c.sub(exact, one), exact);
  const ValueId floor = c.op("Floor", {lower});
  const ValueId above = c.op("Greater", {c.sub(lower, floor), c.scalar(dtype, 0.5)});
  const ValueId zero = c.scalar(dtype, 0), quotient = c.div(a, b);
  const ValueId whole = c.where(above, c.add(floor, one), floor);
  const ValueId signed_whole = c.where(c.op("Equal", {lower, zero}), c.mul(quotient, zero), whole);
  return c.where(c.op("Equal", {b, zero}), quotient, signed_whole);
}

ValueId float_argument(Call& c, std::string_view name = "self") {
  const ValueId x = c.tensor(name);
  return c.cast(x, as_float(c.dtype_of(x)));
}

}  // namespace

// ---- one operand

Item unary(Call& c) {
  const ValueId x = c.tensor("self");
  return c.op(c.detail(), {x});
}

Item unary_float(Call& c) { return c.op(c.detail(), {float_argument(c)}); }

// Integers and bools are what they round to.
Item rounding(Call& c) {
  const ValueId x = c.tensor("self");
  return is_float(c.dtype_of(x)) ? c.op(c.detail(), {x}) : x;
}

Item round_decimals(Call& c) {
  const ValueId x = c.tensor("self");
  const std::int64_t decimals = c.integer("decimals");
  if (!is_float(c.dtype_of(x))) return x;
  const ValueId factor = c.scalar(c.dtype_of(x), std::pow(10.0, std::abs(decimals)));
  if (decimals < 0) return c.mul(c.op("Round", {c.div(x, factor)}), factor);
  return c.div(c.op("Round", {c.mul(x, factor)}), factor);
}

Item trunc(Call& c) {
  const ValueId x = c.tensor("self");
  return is_float(c.dtype_of(x)) ? truncated(c, x) : x;
}

Item frac(Call& c) {
  const ValueId x = c.tensor("self");
  return c.sub(x, truncated(c, x));
}

Item absolute(Call& c) {
  const ValueId x = c.tensor("self");
  return is_bool(c.dtype_of(x)) ? x : c.op("Abs", {x});
}

Item negative(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = c.dtype_of(x);
  return is_float(dtype) || is_signed_integer(dtype) ? c.op("Neg", {x}) : c.sub(c.whole_value(dtype, 0), x);
}

Item sign(Call& c) {
  const ValueId x = c.tensor("self");
  return is_bool(c.dtype_of(x)) ? x : c.op("Sign", {x});
}

Item signbit(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = c.dtype_of(x);
  if (!is_float(dtype)) {
    if (is_signed_integer(dtype)) return c.op("Less", {x, c.whole_value(dtype, 0)});
    return c.op("Expand", {c.whole_value(DType::Bool, 0), c.op("Shape", {x})});
  }
  const DType bits = bits_of(dtype) == 64 ? DType::I64 : bits_of(dtype) == 32 ? DType::I32 : DType::I16;
  return c.op("Less", {c.op("BitCast", {x}, {{"to", onnx_code(bits)}}), c.whole_value(bits, 0)});
}

Item square(Call& c) {
  const ValueId x = c.tensor("self");
  const ValueId wide = is_bool(c.dtype_of(x)) ? c.cast(x, DType::I64) : x;
  return c.mul(wide, wide);
}

Item reciprocal_root(Call& c) { return c.op("Reciprocal", {c.op("Sqrt", {float_argument(c)})}); }

Item exp2(Call& c) {
  const ValueId x = float_argument(c);
  return c.op("Pow", {c.scalar(c.dtype_of(x), 2), x});
}

// tanh(x/2) (e^x + 1), which is exact near 0 where e^x - 1 cancels.
Item expm1(Call& c) {
  const ValueId x = float_argument(c);
  const DType dtype = c.dtype_of(x), wide = is_narrow(dtype) ? DType::F32 : dtype;
  const ValueId w = c.cast(x, wide);
  const ValueId half = c.op("Tanh", {c.mul(w, c.scalar(wide, 0.5))});
  return c.cast(c.mul(half, c.add(c.op("Exp", {w}), c.scalar(wide, 1))), dtype);
}

// 2 atanh(x / (x + 2)) near 0, where 1 + x rounds x away.
Item log1p(Call& c) {
  const ValueId x = float_argument(c);
  const DType dtype = c.dtype_of(x), wide = is_narrow(dtype) ? DType::F32 : dtype;
  const ValueId w = c.cast(x, wide), two = c.scalar(wide, 2);
  const ValueId small = c.op("Less", {c.op("Abs", {w}), c.scalar(wide, 0.5)});
  const ValueId inside = c.where(small, w, c.scalar(wide, 0));
  const ValueId near = c.mul(two, c.op("Atanh", {c.div(inside, c.add(inside, two))}));
  return c.cast(c.where(small, near, c.op("Log", {c.add(w, c.scalar(wide, 1))})), dtype);
}

namespace {
Item scaled_logarithm(Call& c, double factor) {
  const ValueId x = float_argument(c);
  const DType dtype = c.dtype_of(x), wide = is_narrow(dtype) ? DType::F32 : dtype;
  return c.cast(c.mul(c.op("Log", {c.cast(x, wide)}), c.scalar(wide, factor)), dtype);
}
}  // namespace

Item log2(Call& c) { return scaled_logarithm(c, std::numbers::log2e); }
Item log10(Call& c) { return scaled_logarithm(c, std::numbers::log10e); }

Item erfc(Call& c) {
  const ValueId x = float_argument(c);
  return c.sub(c.scalar(c.dtype_of(x), 1), c.op("Erf", {x}));
}

Item scaled(Call& c) {
  const ValueId x = float_argument(c);
  return c.mul(x,
               c.scalar(c.dtype_of(x), std::string_view(c.detail()) == "degrees" ? 180 / std::numbers::pi
                                                                                 : std::numbers::pi / 180));
}

Item is_nan(Call& c) {
  const ValueId x = c.tensor("self");
  if (is_float(c.dtype_of(x))) return c.op("IsNaN", {x});
  return c.op("Xor", {c.op("Equal", {x, x}), c.whole_value(DType::Bool, 1)});
}

namespace {
ValueId infinite(Call& c, ValueId x, bool positive, bool negative) {
  if (!is_float(c.dtype_of(x))) return c.op("Xor", {c.op("Equal", {x, x}), c.whole_value(DType::Bool, 1)});
  return c.op("IsInf", {x},
              {{"detect_positive", std::int64_t{positive}}, {"detect_negative", std::int64_t{negative}}});
}
}  // namespace

Item is_inf(Call& c) {
  const std::string_view which = c.detail();
  return infinite(c, c.tensor("self"), which != "negative", which != "positive");
}

Item is_finite(Call& c) {
  const ValueId x = c.tensor("self");
  if (!is_float(c.dtype_of(x))) return c.op("Equal", {x, x});
  return c.op("Not", {c.op("Or", {c.op("IsNaN", {x}), infinite(c, x, true, true)})});
}

Item nan_to_num(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = c.dtype_of(x);
  if (!is_float(dtype)) return x;
  const double largest = dtype == DType::F64    ? 1.7976931348623157e308
                         : dtype == DType::F16  ? 65504
                         : dtype == DType::BF16 ? 3.3895313892515355e38
                                                : 3.4028234663852886e38;
  const auto replaced = [&](ValueId where, ValueId y, std::string_view name, double otherwise) {
    return c.where(where, c.scalar(dtype, c.given(name) ? c.real(name) : otherwise), y);
  };
  ValueId y = replaced(c.op("IsNaN", {x}), x, "nan", 0);
  y = replaced(infinite(c, x, true, false), y, "posinf", largest);
  return replaced(infinite(c, x, false, true), y, "neginf", -largest);
}

Item logit(Call& c) {
  ValueId x = float_argument(c);
  const DType dtype = c.dtype_of(x);
  if (c.given("eps")) {
    const double eps = c.real("eps");
    // Also where eps is above 1/2, and the lower bound above the upper.
    const ValueId least = c.scalar(dtype, eps);
    x = c.where(c.op("Less", {x, least}), least, c.op("Min", {x, c.scalar(dtype, 1 - eps)}));
  }
  return c.op("Log", {c.div(x, c.sub(c.scalar(dtype, 1), x))});
}

Item sinc(Call& c) {
  const ValueId given = float_argument(c);
  const DType dtype = c.dtype_of(given), wide = is_narrow(dtype) ? DType::F32 : dtype;
  const ValueId x = c.cast(given, wide);
  const ValueId angle = c.mul(x, c.scalar(wide, std::numbers::pi));
  const ValueId y =
      c.where(c.op("Equal", {x, c.scalar(wide, 0)}), c.scalar(wide, 1), c.div(c.op("Sin", {angle}), angle));
  return c.cast(y, dtype);
}

// ---- two operands

Item arithmetic(Call& c) {
  const DType result = promoted_pair(c);
  const Number alpha = c.has("alpha") ? c.number("alpha") : Number::of(std::int64_t{1});
  std::string op = c.detail();
  Pair pair = operands(c, result);
  if (!alpha.is(1)) {
    if (is_narrow(pair.computed)) {
      pair = {c.cast(pair.a, DType::F32), c.cast(pair.b, DType::F32), DType::F32, result};
    }
    const ValueId factor = c.as_value(alpha, pair.computed);
    pair.b = is_bool(result) ? c.op("And", {pair.b, factor}) : c.mul(pair.b, factor);
  }
  if (is_bool(result)) {
    if (op == "Sub") return c.unsupported("a difference of bools, which torch refuses, too");
    op = op == "Add" || op == "Max" ? "Or" : "And";
  }
  if (op == "rsub") return c.cast(c.sub(pair.b, pair.a), result);
  return c.cast(c.op(op, {pair.a, pair.b}), result);
}

// alpha scales self here.
Item reversed_difference(Call& c) {
  const Operand self = c.operand("self"), other = c.operand("other");
  const Operand both[] = {self, other};
  const DType result = promoted(c, both);
  const DType computed = is_narrow(result) ? DType::F32 : result;
  const ValueId scaled = c.mul(c.as_value(self, computed), c.as_value(c.number("alpha"), computed));
  return c.cast(c.sub(c.as_value(other, computed), scaled), result);
}

Item division(Call& c) {
  const std::string mode =
      c.has("rounding_mode") && c.given("rounding_mode") ? c.text("rounding_mode") : c.detail();
  DType result = promoted_pair(c);
  if (mode.empty()) result = as_float(result);
  if (is_bool(result)) return c.unsupported("a rounded quotient of bools");
  const Pair pair = operands(c, result);
  if (mode.empty()) return c.cast(c.div(pair.a, pair.b), result);
  if (mode == "floor") return c.cast(floor_quotient(c, pair.a, pair.b), result);
  if (mode != "trunc") return c.wrong("rounding_mode '" + mode + "' is neither trunc nor floor");
  const ValueId quotient = c.div(pair.a, pair.b);
  return c.cast(is_float(pair.computed) ? truncated(c, quotient) : quotient, result);
}

// With the sign of the divisor; detail "fmod": with that of the dividend.
Item remainder(Call& c) {
  const DType result = promoted_pair(c);
  if (is_bool(result)) return c.unsupported("a remainder of bools");
  const Pair pair = operands(c, result);
  const ValueId rest = c.op("Mod", {pair.a, pair.b}, {{"fmod", std::int64_t{1}}});
  if (std::string_view(c.detail()) == "fmod") return c.cast(rest, result);
  return c.cast(c.where(sign_differs(c, rest, pair.b), c.add(rest, pair.b), rest), result);
}

Item power(Call& c) {
  const Operand base = c.operand("self"), exponent = c.operand("exponent");
  const Operand both[] = {base, exponent};
  const DType result = promoted(c, both);
  if (exponent.number && exponent.number->is(2) && !base.number && !is_bool(result)) {
    const ValueId x = c.cast(base.value, result);
    return c.mul(x, x);
  }
  const DType computed = is_float(result) ? (is_narrow(result) ? DType::F32 : result)
                         : result == DType::I32 || result == DType::I64 ? result
                                                                        : DType::I64;
  return c.cast(c.op("Pow", {c.as_value(base, computed), c.as_value(exponent, computed)}), result);
}

// NaN only where both are.
Item ignoring_nan(Call& c) {
  const DType result = promoted_pair(c);
  const Pair pair = operands(c, result);
  if (is_bool(result)) return c.op(std::string_view(c.detail()) == "Max" ? "Or" : "And", {pair.a, pair.b});
  const ValueId both = c.op(c.detail(), {pair.a, pair.b});
  if (!is_float(result)) return both;
  return c.cast(c.where(c.op("IsNaN", {pair.a}), pair.b, c.where(c.op("IsNaN", {pair.b}), pair.a, both)),
                result);
}

Item arc_tangent2(Call& c) {
  const DType result = as_float(promoted_pair(c));
  const DType wide = is_narrow(result) ? DType::F32 : result;
  const ValueId y = c.as_value(c.operand("self"), wide), x = c.as_value(c.operand("other"), wide);
  const auto number = [&](double value) { return c.scalar(wide, value); };
  const ValueId zero = number(0), pi = number(std::numbers::pi);
  // atan of the quotient, moved by half a circle where x is negative; the signs of zeros and infinities are those of C.
  const DType bits = wide == DType::F64 ? DType::I64 : DType::I32;
  const auto is_negative = [&](ValueId v) {
    return c.op("Less", {c.op("BitCast", {v}, {{"to", onnx_code(bits)}}), c.whole_value(bits, 0)});
  };
  const ValueId ax = c.op("Abs", {x}), ay = c.op("Abs", {y});
  const ValueId steep = c.op("Greater", {ay, ax});
  const ValueId both_infinite = c.op("And", {infinite(c, ax, true, true), infinite(c, ay, true, true)});
  const ValueId smaller = c.op("Min", {ax, ay}), larger = c.op("Max", {ax, ay});
  ValueId ratio = c.where(c.op("Equal", {larger, zero}), zero, c.div(smaller, larger));
  ratio = c.where(both_infinite, number(1), ratio);
  ValueId angle = c.op("Atan", {ratio});
  angle = c.where(steep, c.sub(number(std::numbers::pi / 2), angle), angle);
  angle = c.where(is_negative(x), c.sub(pi, angle), angle);
  angle = c.where(is_negative(y), c.op("Neg", {angle}), angle);
  const ValueId nan = c.op("Or", {c.op("IsNaN", {x}), c.op("IsNaN", {y})});
  return c.cast(c.where(nan, c.add(x, y), angle), result);
}

Item hypotenuse(Call& c) {
  const DType result = as_float(promoted_pair(c));
  const ValueId a = c.as_value(c.operand("self"), result), b = c.as_value(c.operand("other"), result);
  return c.op("Sqrt", {c.add(c.mul(a, a), c.mul(b, b))});
}

Item copy_sign(Call& c) {
  const DType result = as_float(promoted_pair(c));
  const ValueId a = c.as_value(c.operand("self"), result), b = c.as_value(c.operand("other"), result);
  const DType bits = bits_of(result) == 64 ? DType::I64 : bits_of(result) == 32 ? DType::I32 : DType::I16;
  const ValueId negative =
      c.op("Less", {c.op("BitCast", {b}, {{"to", onnx_code(bits)}}), c.whole_value(bits, 0)});
  const ValueId magnitude = c.op("Abs", {a});
  return c.where(negative, c.op("Neg", {magnitude}), magnitude);
}

// x log y, and 0 where x is; NaN of y stays.
Item x_log_y(Call& c) {
  const DType result = as_float(promoted_pair(c));
  const ValueId x = c.as_value(c.operand("self"), result), y = c.as_value(c.operand("other"), result);
  const ValueId zero = c.scalar(result, 0);
  const ValueId product = c.mul(x, c.op("Log", {y}));
  return c.where(c.op("And", {c.op("Equal", {x, zero}), c.op("Not", {c.op("IsNaN", {y})})}), zero, product);
}

// log(e^a + e^b) without overflow.
Item log_add_exp(Call& c) {
  const DType result = as_float(promoted_pair(c));
  const ValueId a = c.as_value(c.operand("self"), result), b = c.as_value(c.operand("other"), result);
  const ValueId larger = c.op("Max", {a, b});
  const ValueId rest = c.op("Softplus", {c.op("Neg", {c.op("Abs", {c.sub(a, b)})})});
  return c.where(c.op("Equal", {a, b}), c.add(a, c.scalar(result, std::numbers::ln2)), c.add(larger, rest));
}

// ---- comparisons and logic

Item comparison(Call& c) {
  DType dtype = promoted_pair(c);
  std::string op = c.detail();
  const bool inverted = op == "NotEqual";
  if (inverted) op = "Equal";
  if (is_bool(dtype) && op != "Equal") dtype = DType::U8;
  const Operand a = c.operand("self"), b = c.operand("other");
  const DType computed = needs_f32(dtype, a) || needs_f32(dtype, b) ? DType::F32 : dtype;
  const ValueId truth = c.op(op, {c.as_value(a, computed), c.as_value(b, computed)});
  return inverted ? c.op("Not", {truth}) : truth;
}

Item logic(Call& c) {
  return c.op(c.detail(), {c.cast(c.tensor("self"), DType::Bool), c.cast(c.tensor("other"), DType::Bool)});
}

Item logical_not(Call& c) { return c.op("Not", {c.cast(c.tensor("self"), DType::Bool)}); }

Item bitwise(Call& c) {
  const DType dtype = promoted_pair(c);
  const Pair pair = operands(c, dtype);
  return c.op((is_bool(dtype) ? "" : "Bitwise") + std::string(c.detail()), {pair.a, pair.b});
}

Item bitwise_not(Call& c) {
  const ValueId x = c.tensor("self");
  return c.op(is_bool(c.dtype_of(x)) ? "Not" : "BitwiseNot", {x});
}

// Signed shifts to the right keep the sign: the complement of a negative number is shifted, and complemented back.
Item shift(Call& c) {
  const DType dtype = promoted_pair(c);
  if (!is_integer(dtype)) return c.unsupported("a shift of " + std::string(name_of(dtype)));
  const Pair pair = operands(c, dtype);
  const bool left = std::string_view(c.detail()) == "LEFT";
  const DType bits = bits_of(dtype) == 64   ? DType::U64
                     : bits_of(dtype) == 32 ? DType::U32
                     : bits_of(dtype) == 16 ? DType::U16
                                            : DType::U8;
  const auto to = [&](ValueId x, DType kind) {
    return c.dtype_of(x) == kind ? x : c.op("BitCast", {x}, {{"to", onnx_code(kind)}});
  };
  const auto shifted = [&](ValueId x) {
    return to(c.op("BitShift", {to(x, bits), to(pair.b, bits)}, {{"direction", std::string(c.detail())}}),
              dtype);
  };
  if (left || !is_signed_integer(dtype)) return shifted(pair.a);
  const ValueId negative = c.op("Less", {pair.a, c.whole_value(dtype, 0)});
  const ValueId magnitude = shifted(c.where(negative, c.op("BitwiseNot", {pair.a}), pair.a));
  return c.where(negative, c.op("BitwiseNot", {magnitude}), magnitude);
}

Item where(Call& c) {
  const Operand both[] = {c.operand("self"), c.operand("other")};
  const DType dtype = promoted(c, both);
  return c.where(c.cast(c.tensor("condition"), DType::Bool), c.as_value(both[0], dtype),
                 c.as_value(both[1], dtype));
}

Item masked_fill(Call& c) {
  const ValueId x = c.tensor("self");
  return c.where(c.cast(c.tensor("mask"), DType::Bool), c.as_value(c.operand("value"), c.dtype_of(x)), x);
}

Item clamp(Call& c) {
  const auto bound = [&](std::string_view name) {
    return c.has(name) && c.given(name) ? c.operand(name) : Operand{};
  };
  const Operand self = c.operand("self"), low = bound("min"), high = bound("max");
  const Operand all[] = {self, low, high};
  const DType dtype = promoted(c, all);
  ValueId x = c.as_value(self, dtype);
  const auto is_given = [](const Operand& operand) { return operand.value.valid() || operand.number; };
  if (is_bool(dtype)) {
    if (is_given(low)) x = c.op("Or", {x, c.as_value(low, dtype)});
    return is_given(high) ? c.op("And", {x, c.as_value(high, dtype)}) : x;
  }
  const bool numbers = !low.value.valid() && !high.value.valid();
  if (numbers) {
    return c.op("Clip", {x, is_given(low) ? c.as_value(low, dtype) : ValueId(),
                         is_given(high) ? c.as_value(high, dtype) : ValueId()});
  }
  if (is_given(low)) x = c.op("Max", {x, c.as_value(low, dtype)});
  return is_given(high) ? c.op("Min", {x, c.as_value(high, dtype)}) : x;
}

namespace {
Item with_scaled(Call& c, const char* op) {
  const ValueId self = c.tensor("self");
  const Operand a{c.tensor("tensor1")}, b{c.tensor("tensor2")};
  const Operand all[] = {{self}, a, b};
  DType dtype = promoted(c, all);
  if (std::string_view(op) == "Div") dtype = as_float(dtype);
  const DType wide = is_narrow(dtype) ? DType::F32 : dtype;
  const Number value = c.number("value");
  ValueId term = c.op(op, {c.cast(a.value, wide), c.cast(b.value, wide)});
  if (!value.is(1)) term = c.mul(term, c.as_value(value, wide));
  return c.cast(c.add(c.cast(self, wide), term), dtype);
}
}  // namespace

Item addcmul(Call& c) { return with_scaled(c, "Mul"); }
Item addcdiv(Call& c) { return with_scaled(c, "Div"); }

// start + weight * (end - start), from the nearer end.
Item lerp(Call& c) {
  const ValueId start = c.tensor("self"), end = c.tensor("end");
  const DType dtype = c.dtype_of(start), wide = is_narrow(dtype) ? DType::F32 : dtype;
  const ValueId a = c.cast(start, wide), b = c.cast(end, wide), w = c.as_value(c.operand("weight"), wide);
  const ValueId difference = c.sub(b, a), one = c.scalar(wide, 1);
  const ValueId from_start = c.add(a, c.mul(w, difference));
  const ValueId from_end = c.sub(b, c.mul(difference, c.sub(one, w)));
  return c.cast(c.where(c.op("Less", {c.op("Abs", {w}), c.scalar(wide, 0.5)}), from_start, from_end), dtype);
}

}  // namespace xyntra::aten
