// i64 and u64 as two words, where the adapter has no integers of 64 bits: the functions are in wide_functions.cpp.
#include <array>

#include "codegen/wgsl/operations.h"
#include "codegen/wgsl/words.h"

namespace xyntra::wgsl {

using te::ExprOp;

namespace {

const char* sign_name(DType dtype) { return dtype == DType::I64 ? "signed" : "unsigned"; }

}  // namespace

std::string Operations::wide(ExprOp op, DType dtype, std::span<const std::string> o) {
  if (op == ExprOp::Min || op == ExprOp::Max) {
    const std::string less = call(std::string("less_") + sign_name(dtype), o);
    return "select(" + o[op == ExprOp::Min ? 1 : 0] + ", " + o[op == ExprOp::Min ? 0 : 1] + ", " + less + ")";
  }
  if (std::ranges::find(kWideWords, op, &WordRow::op) != std::end(kWideWords))
    return written(word_of(kWideWords, op, "integers"), "", o);
  return written(word_of(kSignedWideWords, op, "integers"), sign_name(dtype), o);
}

std::string Operations::compare_wide(ExprOp op, DType dtype, const std::string& a, const std::string& b) {
  auto less = [&](const std::string& first, const std::string& second) {
    return call(std::string("less_") + sign_name(dtype), std::array{first, second});
  };
  switch (op) {
    case ExprOp::Equal: return "all(" + a + " == " + b + ")";
    case ExprOp::NotEqual: return "any(" + a + " != " + b + ")";
    case ExprOp::Less: return less(a, b);
    case ExprOp::Greater: return less(b, a);
    case ExprOp::LessEqual: return "(!" + less(b, a) + ")";
    case ExprOp::GreaterEqual: return "(!" + less(a, b) + ")";
    default: internal_error(std::string("wgsl: '") + te::spelling_of(op) + "' compares nothing");
  }
}

// One of the two dtypes is wide, or both are.
std::string Operations::cast_wide(DType from, DType to, const std::string& value) {
  const std::array operand{value};
  if (is_wide(from) && is_wide(to)) return value;
  if (is_wide(from)) {
    if (to == DType::Bool) return "any(" + value + " != vec2u(0u, 0u))";
    if (is_float(to)) return rounded(to, call(from == DType::I64 ? "f32_of_i64" : "f32_of_u64", operand));
    return wrapped(to, is_signed_integer(to) ? "bitcast<i32>(" + value + ".x)" : value + ".x");
  }
  if (from == DType::Bool) return "vec2u(select(0u, 1u, " + value + "), 0u)";
  if (is_float(from)) return call(to == DType::I64 ? "i64_of_f32" : "u64_of_f32", operand);
  return is_signed_integer(from) ? call("widened", operand) : "vec2u(" + value + ", 0u)";
}

}  // namespace xyntra::wgsl
