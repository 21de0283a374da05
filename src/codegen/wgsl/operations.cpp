#include "codegen/wgsl/operations.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "codegen/wgsl/functions/functions.h"
#include "codegen/wgsl/words.h"
#include "types/float_formats.h"

namespace xyntra::wgsl {

using te::ExprOp;

namespace {

std::string operator_text(ExprOp op) { return std::string(" ") + te::spelling_of(op) + " "; }

// "min(a, b)"
std::string listed(std::string_view function, std::span<const std::string> operands) {
  std::string text = std::string(function) + "(";
  for (std::size_t i = 0; i < operands.size(); ++i) text += (i == 0 ? "" : ", ") + operands[i];
  return text + ")";
}

bool is_narrow_float(DType dtype) { return is_float(dtype) && bits_of(dtype) < 32; }

std::string hex(std::uint64_t value) {
  std::array<char, 32> text{};
  int length = std::snprintf(text.data(), text.size(), "0x%llxu", static_cast<unsigned long long>(value));
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string decimal(double value, int digits, const char* suffix) {
  std::array<char, 48> text{};
  int length = std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  // The largest numbers, rounded to few digits, are more than a float holds: browsers refuse them.
  constexpr double kMost = std::numeric_limits<float>::max();
  if (std::abs(value) <= kMost && std::abs(std::strtod(text.data(), nullptr)) > kMost)
    length = std::snprintf(text.data(), text.size(), "%.17g", value);
  std::string made(text.data(), static_cast<std::size_t>(length));
  if (made.find_first_of(".e") == std::string::npos) made += ".0";
  made += suffix;
  return value < 0 || std::signbit(value) ? "(" + made + ")" : made;
}

}  // namespace

// ---- types

Status Operations::supports(DType dtype) const {
  auto missing = [dtype](const char* what) -> Status {
    return failure(ErrorClass::Unsupported, std::string(name_of(dtype)) + " in a shader: " + what);
  };
  // Their functions look at bits, 64 of them.
  if (dtype == DType::F64 && !(features_.float64 && features_.int64))
    return missing("the adapter has no 64-bit floats");
  return {};
}

std::string Operations::type(DType dtype) const {
  if (is_wide(dtype)) return "vec2u";
  switch (dtype) {
    case DType::Bool: return "bool";
    case DType::F16: return features_.float16 ? "f16" : "f32";
    case DType::F64: return "f64";
    case DType::I64: return "i64";
    case DType::U64: return "u64";
    default: break;
  }
  return is_float(dtype) ? "f32" : is_signed_integer(dtype) ? "i32" : "u32";
}

std::string Operations::storage_type(DType dtype, bool written) const {
  if (bits_of(dtype) >= 32) return type(dtype);
  if (!is_packed(dtype)) return "f16";
  return written ? "atomic<u32>" : "u32";
}

std::string Operations::whole(DType dtype, std::int64_t value) const {
  if (is_wide(dtype)) {
    const auto bits = static_cast<std::uint64_t>(value);
    return "vec2u(" + hex(bits & 0xffffffffU) + ", " + hex(bits >> 32U) + ")";
  }
  switch (dtype) {
    case DType::I64:
      if (value == INT64_MIN) return "(-9223372036854775807li - 1li)";
      return value < 0 ? "(" + std::to_string(value) + "li)" : std::to_string(value) + "li";
    case DType::U64: return std::to_string(static_cast<std::uint64_t>(value)) + "lu";
    default: break;
  }
  if (!is_signed_integer(dtype)) return std::to_string(static_cast<std::uint32_t>(value)) + "u";
  if (value == INT32_MIN) return "i32(-2147483648)";
  return value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
}

std::string Operations::constant(const te::ExprNode& node) {
  if (node.dtype == DType::Bool) return node.int_value != 0 ? "true" : "false";
  if (!is_float(node.dtype)) return whole(node.dtype, node.int_value);
  const double value = node.dtype == DType::F64
                           ? node.float_value
                           : static_cast<double>(round_to(node.dtype, static_cast<float>(node.float_value)));
  if (std::isfinite(value)) {
    return node.dtype == DType::F64 ? decimal(value, 17, "lf")
                                    : decimal(value, 9, is_half(node.dtype) ? "h" : "f");
  }
  // The language has no word for them, and an expression of constants must not make them.
  const float single = static_cast<float>(value);
  const std::string bits = hex(std::isnan(single) ? 0x7fc00000U : single > 0 ? 0x7f800000U : 0xff800000U);
  const std::string made = call("of_bits_f32", std::array{bits});
  return type(node.dtype) == "f32" ? made : type(node.dtype) + "(" + made + ")";
}

// ---- operations

std::string Operations::call(const std::string& function, std::span<const std::string> operands) {
  called_.insert(function);
  return listed(function, operands);
}

std::string Operations::functions() const { return functions_text(called_); }

std::string Operations::wrapped(DType dtype, const std::string& value) const {
  const int bits = bits_of(dtype);
  if (bits >= 32) return value;
  return "extractBits(" + value + ", 0u, " + std::to_string(bits) + "u)";
}

std::string Operations::rounded(DType dtype, const std::string& value) {
  if (dtype == DType::F16) return call("round_f16", std::array{value});
  return dtype == DType::BF16 ? call("round_bf16", std::array{value}) : value;
}

std::string Operations::vector_arithmetic(ExprOp op, DType dtype, std::span<const std::string> operands) {
  if (is_half(dtype) && op != ExprOp::Neg) {
    std::vector<std::string> wide;
    for (const std::string& operand : operands) wide.push_back(vector_cast(DType::F32, operand));
    const std::string made = vector_arithmetic(op, DType::F32, wide);
    return op == ExprOp::Min || op == ExprOp::Max ? vector_cast(DType::F16, made) : rounded_vector(made);
  }
  if (op == ExprOp::Min) return call("min_vector", operands);
  if (op == ExprOp::Max) return call("max_vector", operands);
  return floating(op, dtype, operands);
}

std::string Operations::settled_vector(DType dtype, const std::string& value) {
  if (!is_half(dtype)) return call("settled_vector", std::array{value});
  return vector_cast(DType::F16, settled_vector(DType::F32, vector_cast(DType::F32, value)));
}

// By its bits: drivers take an f16 that is made wider again for what it was before it was rounded.
std::string Operations::half(const std::string& single) {
  return "f16(" + call("round_f16", std::array{single}) + ")";
}

std::string Operations::rounded_vector(const std::string& value) {
  return vector_cast(DType::F16, call("round_f16_vector", std::array{value}));
}

// By way of f32, where sums, differences and products of two f16 are so close to exact that they are rounded once.
std::string Operations::half_arithmetic(ExprOp op, std::span<const std::string> operands) {
  if (op == ExprOp::Neg || op == ExprOp::Abs) return floating(op, DType::F16, operands);
  std::vector<std::string> wide;
  for (const std::string& operand : operands) wide.push_back("f32(" + operand + ")");
  const std::string made = floating(op, DType::F32, wide);
  return op == ExprOp::Min || op == ExprOp::Max ? "f16(" + made + ")" : half(made);
}

std::string Operations::arithmetic(ExprOp op, DType dtype, std::span<const std::string> operands) {
  if (dtype == DType::Bool) return boolean(op, operands);
  if (is_wide(dtype)) return wide(op, dtype, operands);
  if (!is_float(dtype)) return wrapped(dtype, integer(op, dtype, operands));
  if (is_half(dtype)) return half_arithmetic(op, operands);
  return floating(op, dtype, operands);
}

// Floats beyond the bound, up to infinity, have consecutive bits, and NaN comes after them. A comparison of floats here would be
// taken for a minimum or maximum that has no NaN.
std::string Operations::bounded(const std::string& number, const te::ExprNode& bound) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(bound.float_value));
  const std::uint32_t infinity = bound.float_value > 0 ? 0x7f800000U : 0xff800000U;
  return "select(" + number + ", " + constant(bound) + ", (bitcast<u32>(" + number + ") - " + hex(bits + 1) +
         ") < " + hex(infinity - bits) + ")";
}

// One of our functions, of this type, is called "name_type".
std::string Operations::written(const WordRow* row, const std::string& type, std::span<const std::string> o) {
  switch (row->form) {
    case Form::Operator: return "(" + o[0] + " " + std::string(row->word) + " " + o[1] + ")";
    case Form::Prefix: return "(" + std::string(row->word) + o[0] + ")";
    case Form::Language: return listed(row->word, o);
    case Form::Function: return call(std::string(row->word) + (type.empty() ? "" : "_" + type), o);
  }
  internal_error("wgsl: an operation of no form");
}

std::string Operations::floating(ExprOp op, DType dtype, std::span<const std::string> o) {
  const std::string kind = type(dtype);
  if (op == ExprOp::Div && kind != "f32") return "(" + o[0] + " / " + o[1] + ")";
  return written(word_of(kFloatWords, op, "floats"), kind, o);
}

std::string Operations::integer(ExprOp op, DType dtype, std::span<const std::string> o) {
  const std::string kind = type(dtype);
  if (op == ExprOp::Neg && !is_signed_integer(dtype)) return "(" + kind + "(0) - " + o[0] + ")";
  if (op == ExprOp::Abs) return "select(" + o[0] + ", -" + o[0] + ", " + o[0] + " < " + kind + "(0))";
  const WordRow* row = word_of(kIntegerWords, op, "integers");
  if (op != ExprOp::ShiftLeft && op != ExprOp::ShiftRight) return written(row, kind, o);
  return written(row, kind, std::array{o[0], o[1], std::to_string(bits_of(dtype)) + "u"});
}

std::string Operations::shifted(ExprOp op, DType dtype, const std::string& value, std::int64_t bits) {
  if (is_wide(dtype)) return wide(op, dtype, std::array{value, whole(dtype, bits)});
  return wrapped(dtype, "(" + value + operator_text(op) + std::to_string(bits) + "u)");
}

std::string Operations::boolean(ExprOp op, std::span<const std::string> o) {
  const WordRow* row = word_of(kBoolWords, op, "bools");
  // What reads memory is only looked at where the first operand leaves the answer open; else there is no branch.
  const bool reads = o.size() > 1 && o[1].find('[') != std::string::npos;
  if (reads && (op == ExprOp::Or || op == ExprOp::And))
    return "(" + o[0] + (op == ExprOp::Or ? " || " : " && ") + o[1] + ")";
  return written(row, "", o);
}

std::string Operations::compare(ExprOp op, DType dtype, const std::string& a, const std::string& b) {
  if (is_wide(dtype)) return compare_wide(op, dtype, a, b);
  if (is_half(dtype) && !features_.float16_adds)
    return compare(op, DType::F32, "f32(" + a + ")", "f32(" + b + ")");
  // Compilers take what is not equal for what is less or greater, which a NaN is not.
  if (op == ExprOp::NotEqual && is_float(dtype)) return "!(" + a + " == " + b + ")";
  return "(" + a + operator_text(op) + b + ")";
}

std::string Operations::is_nan(DType dtype, const std::string& value) {
  return is_float(dtype) ? call("is_nan_" + type(dtype), std::array{value}) : "false";
}

std::string Operations::is_inf(DType dtype, const std::string& value) {
  return is_float(dtype) ? call("is_inf_" + type(dtype), std::array{value}) : "false";
}

// By its bits, which halves have as f32.
std::string Operations::plus_zero(DType dtype, const std::string& x) {
  if (is_half(dtype)) return "f16(" + plus_zero(DType::F32, "f32(" + x + ")") + ")";
  return call("plus_zero_" + type(dtype), std::array{x});
}

// Of floats from -infinity to before -0, whose bits are consecutive.
std::string Operations::without_negatives(const std::string& number) {
  return "select(" + number + ", 0.0f, (bitcast<u32>(" + number + ") - 0x80000001u) < 0x7f800000u)";
}

std::string Operations::kept(DType dtype, const std::string& value) {
  if (is_half(dtype)) return half("f32(" + value + ")");
  return can_keep(dtype) ? call("kept_" + type(dtype), std::array{value}) : value;
}

bool Operations::can_keep(DType dtype) const {
  return dtype == DType::F32 || (dtype == DType::F64 && features_.int64);
}

std::string Operations::kept_vector(const std::string& value) {
  return call("kept_vector", std::array{value});
}

std::string Operations::settled(DType dtype, const std::string& value) {
  return call("settled_" + type(dtype), std::array{value});
}

std::string Operations::is_outside(const std::string& index, const std::string& bound) const {
  if (is_wide(DType::I64)) return index + ".y != 0u || " + index + ".x >= u32(" + bound + ")";
  return index + " < 0li || " + index + " >= i64(" + bound + ")";
}

// ---- conversions

std::string Operations::cast(DType from, DType to, const std::string& value) {
  if (is_half(from)) return to == from ? value : cast(DType::F32, to, "f32(" + value + ")");
  if (is_half(to)) {
    if (from == DType::Bool) return "select(0.0h, 1.0h, " + value + ")";
    return half(cast(from, DType::F32, value));
  }
  if (is_wide(from) || is_wide(to)) return cast_wide(from, to, value);
  const std::string to_type = type(to), from_type = type(from);
  if (to == DType::Bool) return compare(ExprOp::NotEqual, from, value, from_type + "(0)");
  if (from == DType::Bool) return "select(" + to_type + "(0), " + to_type + "(1), " + value + ")";
  auto converted = [&] { return to_type == from_type ? value : to_type + "(" + value + ")"; };
  if (is_float(to)) {
    const bool fits = is_float(from) && bits_of(from) < bits_of(to) && bits_of(to) >= 32;
    if (fits || from == to) return converted();
    return rounded(to, converted());
  }
  // Compilers of shaders go by the sign of the wider type when they fill its upper half, not by that of the number.
  if (from_type == "i32" && to_type == "i64") return call("widened_i32", std::array{value});
  if (from_type == "i32" && to_type == "u64") return "u64(" + call("widened_i32", std::array{value}) + ")";
  if (from_type == "u32" && to_type == "i64") return call("widened_u32", std::array{value});
  if (!is_float(from)) return wrapped(to, converted());
  // Truncates, saturates; NaN gives 0.
  const std::string low = whole(to, lowest_integer(to)),
                    high = whole(to, static_cast<std::int64_t>(highest_integer(to))),
                    truncated = to_type + "(" + value + ")";
  auto limit = [&](double number) {
    return from == DType::F64 ? decimal(number, 17, "lf") : decimal(number, 9, "f");
  };
  return "select(select(select(" + truncated + ", " + low + ", " + value +
         " <= " + limit(static_cast<double>(lowest_integer(to))) + "), " + high + ", " + value +
         " >= " + limit(static_cast<double>(highest_integer(to))) + "), " + to_type + "(0), " +
         is_nan(from, value) + ")";
}

std::string Operations::bitcast(DType from, DType to, const std::string& value) {
  if (from == to || (is_wide(from) && is_wide(to))) return value;
  if (is_narrow_float(from)) return wrapped(to, "bitcast<" + type(to) + ">(" + encoded(from, value) + ")");
  if (is_narrow_float(to)) return decoded(to, "bitcast<u32>(" + value + ")", "0u");
  if (bits_of(from) < 32) return cast(from, to, value);
  return "bitcast<" + type(to) + ">(" + value + ")";
}

std::string Operations::decoded(DType dtype, const std::string& word, const std::string& shift) {
  if (dtype == DType::Bool) return "((" + word + " & (255u << (" + shift + "))) != 0u)";
  // Not by extractBits: NVIDIA's compiler was seen to take the bits of another place.
  const int bits = bits_of(dtype);
  if (is_signed_integer(dtype)) {
    const std::string unused = std::to_string(32 - bits) + "u";
    return "(bitcast<i32>(" + word + " << (" + unused + " - (" + shift + "))) >> " + unused + ")";
  }
  const std::string mask = std::to_string((std::uint32_t{1} << static_cast<unsigned>(bits)) - 1) + "u";
  const std::string raw = "((" + word + " >> (" + shift + ")) & " + mask + ")";
  return is_narrow_float(dtype) ? from_code(dtype, raw) : raw;
}

std::string Operations::from_code(DType dtype, const std::string& code) {
  if (dtype == DType::F16) {
    const std::string made = call("f16_of_bits", std::array{code});
    return is_half(dtype) ? "f16(" + made + ")" : made;
  }
  return call("of_bits_f32", std::array{code + " << 16u"});
}

std::string Operations::encoded(DType dtype, const std::string& value) {
  if (dtype == DType::F16)
    return call("bits_of_f16", std::array{is_half(dtype) ? "f32(" + value + ")" : value});
  if (dtype == DType::BF16) return "(bitcast<u32>(" + value + ") >> 16u)";
  if (dtype == DType::Bool) return "select(0u, 1u, " + value + ")";
  const std::string word = is_signed_integer(dtype) ? "bitcast<u32>(" + value + ")" : value;
  return "extractBits(" + word + ", 0u, " + std::to_string(bits_of(dtype)) + "u)";
}

}  // namespace xyntra::wgsl
