#include "codegen/ptx/arithmetic.h"

#include <algorithm>
#include <bit>

#include "support/result.h"
#include "support/text/text.h"
#include "types/float_formats.h"

namespace xyntra::ptx {

using te::ExprOp;

namespace {

// What an operation is on floats and on integers, the type to come; null: it takes more than one instruction.
struct Row {
  ExprOp op;
  const char* of_floats;
  const char* of_integers;
  const char* of_bits = nullptr;  // of integers, with a type that has no sign
};
constexpr Row kRows[] = {
    {ExprOp::Add, "add.rn", "add"},
    {ExprOp::Sub, "sub.rn", "sub"},
    {ExprOp::Mul, "mul.rn", "mul.lo"},
    {ExprOp::Div, "div.rn", "div"},
    {ExprOp::Rem, nullptr, "rem"},
    {ExprOp::Fma, "fma.rn", nullptr},
    {ExprOp::Sqrt, "sqrt.rn", nullptr},
    {ExprOp::Exp2, "ex2.approx.ftz", nullptr},  // of kernels that are approximate
    {ExprOp::Min, nullptr, "min"},
    {ExprOp::Max, nullptr, "max"},
    {ExprOp::And, nullptr, nullptr, "and"},
    {ExprOp::Or, nullptr, nullptr, "or"},
    {ExprOp::Xor, nullptr, nullptr, "xor"},
    {ExprOp::Not, nullptr, nullptr, "not"},
};

struct Rounding {
  ExprOp op;
  const char* mode;
};
constexpr Rounding kRoundings[] = {
    {ExprOp::Floor, "rmi"}, {ExprOp::Ceil, "rpi"}, {ExprOp::Round, "rni"}, {ExprOp::Trunc, "rzi"}};

const Row* row_of(ExprOp op) {
  const Row* found = std::ranges::find(kRows, op, &Row::op);
  return found == std::end(kRows) ? nullptr : found;
}

bool is_wide(DType dtype) { return bits_of(dtype) == 64; }

std::string hex(std::uint64_t bits, int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (std::size_t i = text.size(); i-- > 0; bits >>= 4)
    text[i] = std::string_view("0123456789ABCDEF")[bits & 0xf];
  return text;
}

// "s32", "u64": of the register that holds it.
std::string integer_type(DType dtype) {
  return std::string(is_signed_integer(dtype) ? "s" : "u") + (is_wide(dtype) ? "64" : "32");
}
std::string bits_type(DType dtype) { return is_wide(dtype) ? "b64" : "b32"; }
std::string float_type(DType dtype) { return dtype == DType::F64 ? "f64" : "f32"; }

// Of literals, where 32 bits hold it.
std::optional<std::int64_t> folded(ExprOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case ExprOp::Add: return a + b;
    case ExprOp::Sub: return a - b;
    case ExprOp::Mul: return a * b;
    case ExprOp::Min: return std::min(a, b);
    case ExprOp::Max: return std::max(a, b);
    case ExprOp::Div: return a >= 0 && b > 0 ? std::optional(a / b) : std::nullopt;
    case ExprOp::Rem: return a >= 0 && b > 0 ? std::optional(a % b) : std::nullopt;
    default: return std::nullopt;
  }
}

// What takes no instruction: loops that are written out make numbers of many positions.
std::optional<std::string> without_instruction(ExprOp op, std::span<const std::string> o) {
  if (o.size() != 2) return std::nullopt;
  const auto a = literal(o[0]), b = literal(o[1]);
  if (a && b) {
    if (const auto made = folded(op, *a, *b); made && *made >= INT32_MIN && *made <= INT32_MAX)
      return std::to_string(*made);
  }
  if ((op == ExprOp::Add || op == ExprOp::Sub) && b == 0) return o[0];
  if (op == ExprOp::Add && a == 0) return o[1];
  if (op != ExprOp::Mul) return std::nullopt;
  if (a == 0 || b == 0) return "0";
  if (b == 1) return o[0];
  return a == 1 ? std::optional(o[1]) : std::nullopt;
}

[[noreturn]] void no_operation(ExprOp op, const char* on) {
  internal_error(std::string("codegen: '") + te::spelling_of(op) + "' is not an operation on " + on);
}

}  // namespace

std::string_view suffix_of(DType dtype) {
  if (dtype == DType::Bool) return "pred";
  if (is_float(dtype)) return dtype == DType::F64 ? "f64" : "f32";
  return is_wide(dtype) ? "b64" : "b32";
}

// ---- numbers

std::string Arithmetic::constant(const te::ExprNode& node) {
  if (node.dtype == DType::F64) return "0d" + hex(std::bit_cast<std::uint64_t>(node.float_value), 16);
  if (is_float(node.dtype))
    return "0f" +
           hex(std::bit_cast<std::uint32_t>(round_to(node.dtype, static_cast<float>(node.float_value))), 8);
  if (node.dtype == DType::Bool) return std::string(node.int_value != 0 ? kTrue : kFalse);
  if (node.dtype == DType::U32) return std::to_string(static_cast<std::uint32_t>(node.int_value));
  return std::to_string(node.int_value);
}

std::string Arithmetic::zero(DType dtype) {
  if (dtype == DType::Bool) return std::string(kFalse);
  if (!is_float(dtype)) return "0";
  return dtype == DType::F64 ? "0d0000000000000000" : "0f00000000";
}

std::string Arithmetic::normalised(DType dtype, const std::string& x) {
  const int bits = bits_of(dtype);
  if (bits >= 32) return x;
  const std::string count = std::to_string(bits);
  return code_.word(is_signed_integer(dtype) ? "bfe.s32" : "bfe.u32", {x, "0", count});
}

// ---- operations

std::string Arithmetic::arithmetic(ExprOp op, DType dtype, std::span<const std::string> o, Nans nans) {
  if (dtype == DType::Bool) return bool_arithmetic(op, o);
  return is_float(dtype) ? float_arithmetic(op, dtype, o, nans) : integer_arithmetic(op, dtype, o);
}

std::string Arithmetic::float_arithmetic(ExprOp op, DType dtype, std::span<const std::string> o, Nans nans) {
  const std::string type = float_type(dtype);
  const Size size = size_of(dtype);
  if (const Row* row = row_of(op); row != nullptr && row->of_floats != nullptr) {
    const std::string operation = std::string(row->of_floats) + "." + type;
    if (o.size() == 1) return code_.make(size, operation, {o[0]});
    if (o.size() == 2) return code_.make(size, operation, {o[0], o[1]});
    return code_.make(size, operation, {o[0], o[1], o[2]});
  }
  if (const Rounding* found = std::ranges::find(kRoundings, op, &Rounding::op); found != std::end(kRoundings))
    return code_.make(size, std::string("cvt.") + found->mode + "." + type + "." + type, {o[0]});
  const bool is_double = dtype == DType::F64;
  switch (op) {
    case ExprOp::Neg:
      if (nans == Nans::Any) return code_.make(size, "neg." + type, {o[0]});
      return is_double ? code_.wide("xor.b64", {bitcast(dtype, DType::I64, o[0]), "0x8000000000000000"})
                       : code_.word("xor.b32", {bitcast(DType::F32, DType::I32, o[0]), "0x80000000"});
    case ExprOp::Abs:
      if (nans == Nans::Any) return code_.make(size, "abs." + type, {o[0]});
      return is_double ? code_.wide("and.b64", {bitcast(dtype, DType::I64, o[0]), "0x7FFFFFFFFFFFFFFF"})
                       : code_.word("and.b32", {bitcast(DType::F32, DType::I32, o[0]), "0x7FFFFFFF"});
    case ExprOp::Min: return smallest_or_largest(false, dtype, o[0], o[1]);
    case ExprOp::Max: return smallest_or_largest(true, dtype, o[0], o[1]);
    default: no_operation(op, "floats");
  }
}

// NaN wins, and -0 is below +0.
std::string Arithmetic::smallest_or_largest(bool largest, DType dtype, const std::string& a,
                                            const std::string& b) {
  const std::string name = largest ? "max" : "min";
  if (dtype != DType::F64) return code_.word(name + ".NaN.f32", {a, b});
  const std::string chosen = code_.wide(name + ".f64", {a, b}), nan = code_.predicate("setp.nan.f64", {a, b});
  return select(dtype, nan, code_.wide("add.rn.f64", {a, b}), chosen);
}

std::string Arithmetic::integer_arithmetic(ExprOp op, DType dtype, std::span<const std::string> o) {
  const Size size = size_of(dtype);
  if (dtype == DType::I32) {
    if (const auto known = without_instruction(op, o)) return *known;
  }
  if (const Row* row = row_of(op);
      row != nullptr && (row->of_integers != nullptr || row->of_bits != nullptr)) {
    const std::string operation = row->of_integers != nullptr ? row->of_integers + ("." + integer_type(dtype))
                                                              : row->of_bits + ("." + bits_type(dtype));
    if (o.size() == 1) return normalised(dtype, code_.make(size, operation, {o[0]}));
    std::string result = code_.make(size, operation, {o[0], o[1]});
    const bool stays = op == ExprOp::Min || op == ExprOp::Max || op == ExprOp::Div || op == ExprOp::Rem ||
                       row->of_bits != nullptr;
    return stays ? result : normalised(dtype, result);
  }
  const std::string type = is_wide(dtype) ? "s64" : "s32";
  switch (op) {
    case ExprOp::Neg: return normalised(dtype, code_.make(size, "neg." + type, {o[0]}));
    case ExprOp::Abs: return normalised(dtype, code_.make(size, "abs." + type, {o[0]}));
    case ExprOp::ShiftLeft:
    case ExprOp::ShiftRight: return shifted(op, dtype, o[0], o[1]);
    default: no_operation(op, "integers");
  }
}

std::string Arithmetic::bool_arithmetic(ExprOp op, std::span<const std::string> o) {
  switch (op) {
    case ExprOp::Or: return code_.either(o[0], o[1]);
    case ExprOp::And: return code_.both(o[0], o[1]);
    case ExprOp::Xor: return code_.predicate("xor.pred", {code_.held(o[0]), code_.held(o[1])});
    case ExprOp::Not: return code_.negated(o[0]);
    default: no_operation(op, "bools");
  }
}

// By a number they are shifts, or a product with its inverse: the assembler divides by whatever it is given. For a < 2^31 and
// 2^(k-1) < b <= 2^k, m = ceil(2^(31+k) / b) has 32 bits and is off by less than b, so a * m / 2^(31+k) is off by less than 1 / b.
std::string Arithmetic::quotient(const std::string& a, const std::string& b) {
  if (const auto number = without_instruction(ExprOp::Div, std::array{a, b})) return *number;
  const std::int64_t known = literal(b).value_or(0);
  if (known < 1 || known > INT32_MAX) return code_.word("div.u32", {a, b});
  const auto divisor = static_cast<std::uint64_t>(known);
  const int bits = std::bit_width(divisor - 1);
  if (std::has_single_bit(divisor)) return code_.word("shr.u32", {a, std::to_string(bits)});
  const std::uint64_t inverse = ((std::uint64_t{1} << (31 + bits)) + divisor - 1) / divisor;
  const std::string product = code_.word("mul.hi.u32", {a, std::to_string(inverse)});
  return code_.word("shr.u32", {product, std::to_string(bits - 1)});
}

std::string Arithmetic::rest(const std::string& a, const std::string& b) {
  if (const auto number = without_instruction(ExprOp::Rem, std::array{a, b})) return *number;
  const auto known = literal(b);
  if (!known || *known < 1) return code_.word("rem.u32", {a, b});
  if (std::has_single_bit(static_cast<std::uint64_t>(*known)))
    return code_.word("and.b32", {a, std::to_string(*known - 1)});
  return code_.word("sub.s32", {a, code_.word("mul.lo.s32", {quotient(a, b), b})});
}

// Shifting by the width or more, or by a negative number, leaves nothing but the sign: so does the machine, by unsigned words.
std::string Arithmetic::shifted(ExprOp op, DType dtype, const std::string& x, const std::string& places) {
  std::string count = places;
  if (is_wide(dtype) && !literal(places))
    count = code_.word("cvt.u32.u64", {code_.wide("min.u64", {places, "64"})});
  if (const auto known = literal(count); known && (*known < 0 || *known > 64)) count = "64";
  if (op == ExprOp::ShiftLeft)
    return normalised(dtype, code_.make(size_of(dtype), "shl." + bits_type(dtype), {x, count}));
  return code_.make(size_of(dtype), "shr." + integer_type(dtype), {x, count});
}

// ---- choices and comparisons

std::string Arithmetic::select(DType dtype, const std::string& condition, const std::string& a,
                               const std::string& b) {
  if (condition == kTrue || a == b) return a;
  if (condition == kFalse) return b;
  if (dtype != DType::Bool)
    return code_.make(size_of(dtype), "selp." + std::string(suffix_of(dtype)), {a, b, condition});
  return code_.either(code_.both(condition, a), code_.both(code_.negated(condition), b));
}

std::string Arithmetic::compare(ExprOp op, DType dtype, const std::string& a, const std::string& b) {
  struct Names {
    const char *floats, *integers;
  };
  const auto names = [op]() -> Names {
    switch (op) {
      case ExprOp::Less: return {"lt", "lt"};
      case ExprOp::LessEqual: return {"le", "le"};
      case ExprOp::Greater: return {"gt", "gt"};
      case ExprOp::GreaterEqual: return {"ge", "ge"};
      case ExprOp::Equal: return {"eq", "eq"};
      case ExprOp::NotEqual: return {"neu", "ne"};
      default: no_operation(op, "two of a kind");
    }
  }();
  if (is_float(dtype))
    return code_.predicate(std::string("setp.") + names.floats + "." + float_type(dtype), {a, b});
  const auto x = literal(a), y = literal(b);
  if (x && y && is_signed_integer(dtype)) {
    const bool holds = op == ExprOp::Less           ? *x < *y
                       : op == ExprOp::LessEqual    ? *x <= *y
                       : op == ExprOp::Greater      ? *x > *y
                       : op == ExprOp::GreaterEqual ? *x >= *y
                       : op == ExprOp::Equal        ? *x == *y
                                                    : *x != *y;
    return std::string(holds ? kTrue : kFalse);
  }
  return code_.predicate(std::string("setp.") + names.integers + "." + integer_type(dtype), {a, b});
}

std::string Arithmetic::is_nan(DType dtype, const std::string& x) {
  if (!is_float(dtype)) return std::string(kFalse);
  return code_.predicate("setp.nan." + float_type(dtype), {x, x});
}

std::string Arithmetic::is_inf(DType dtype, const std::string& x) {
  if (!is_float(dtype)) return std::string(kFalse);
  const std::string magnitude = code_.make(size_of(dtype), "abs." + float_type(dtype), {x});
  return code_.predicate("setp.eq." + float_type(dtype),
                         {magnitude, dtype == DType::F64 ? "0d7FF0000000000000" : "0f7F800000"});
}

std::string Arithmetic::settled(DType dtype, const std::string& x) {
  if (!is_register(x) || one_nan_.contains(x)) return x;
  std::string made =
      select(dtype, is_nan(dtype, x), dtype == DType::F64 ? "0d7FF8000000000000" : "0f7FC00000", x);
  one_nan_.insert(made);
  return made;
}

}  // namespace xyntra::ptx
