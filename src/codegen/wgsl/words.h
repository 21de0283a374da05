// What operations are in WGSL: the language's own, or functions that shaders bring along (functions/).
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "support/result.h"
#include "te/expr.h"

namespace xyntra::wgsl {

enum class Form : std::uint8_t {
  Operator,  // (a + b)
  Prefix,  // (-a)
  Language,  // min(a, b)
  Function,  // min_f32(a, b): one of ours, with the type it is for
};
struct WordRow {
  te::ExprOp op;
  Form form;
  std::string_view word;
};

// clang-format off: a row a line
inline constexpr WordRow kFloatWords[] = {
    {te::ExprOp::Add, Form::Operator, "+"},
    {te::ExprOp::Sub, Form::Operator, "-"},
    {te::ExprOp::Mul, Form::Operator, "*"},
    {te::ExprOp::Div, Form::Function, "div"},
    {te::ExprOp::Min, Form::Function, "min"},
    {te::ExprOp::Max, Form::Function, "max"},
    {te::ExprOp::Fma, Form::Language, "fma"},
    {te::ExprOp::Neg, Form::Prefix, "-"},
    {te::ExprOp::Abs, Form::Language, "abs"},
    {te::ExprOp::Floor, Form::Language, "floor"},
    {te::ExprOp::Ceil, Form::Language, "ceil"},
    {te::ExprOp::Round, Form::Language, "round"},
    {te::ExprOp::Trunc, Form::Language, "trunc"},
    {te::ExprOp::Sqrt, Form::Language, "sqrt"},
};

inline constexpr WordRow kIntegerWords[] = {
    {te::ExprOp::Add, Form::Operator, "+"},
    {te::ExprOp::Sub, Form::Operator, "-"},
    {te::ExprOp::Mul, Form::Operator, "*"},
    {te::ExprOp::And, Form::Operator, "&"},
    {te::ExprOp::Or, Form::Operator, "|"},
    {te::ExprOp::Xor, Form::Operator, "^"},
    {te::ExprOp::Neg, Form::Prefix, "-"},
    {te::ExprOp::Not, Form::Prefix, "~"},
    {te::ExprOp::Min, Form::Language, "min"},
    {te::ExprOp::Max, Form::Language, "max"},
    {te::ExprOp::Div, Form::Function, "div"},
    {te::ExprOp::Rem, Form::Function, "rem"},
    {te::ExprOp::FloorDiv, Form::Function, "floordiv"},
    {te::ExprOp::Mod, Form::Function, "mod"},
    {te::ExprOp::ShiftLeft, Form::Function, "shl"},
    {te::ExprOp::ShiftRight, Form::Function, "shr"},
};

// Integers of 64 bits in two words: those that go by the sign are for "signed" or "unsigned" ones.
inline constexpr WordRow kWideWords[] = {
    {te::ExprOp::Add, Form::Function, "add_wide"},
    {te::ExprOp::Sub, Form::Function, "sub_wide"},
    {te::ExprOp::Mul, Form::Function, "mul_wide"},
    {te::ExprOp::Neg, Form::Function, "neg_wide"},
    {te::ExprOp::And, Form::Operator, "&"},
    {te::ExprOp::Or, Form::Operator, "|"},
    {te::ExprOp::Xor, Form::Operator, "^"},
    {te::ExprOp::Not, Form::Prefix, "~"},
    {te::ExprOp::ShiftLeft, Form::Function, "shl_wide"},
};
inline constexpr WordRow kSignedWideWords[] = {
    {te::ExprOp::Abs, Form::Function, "abs"},
    {te::ExprOp::Div, Form::Function, "div"},
    {te::ExprOp::Rem, Form::Function, "rem"},
    {te::ExprOp::FloorDiv, Form::Function, "floordiv"},
    {te::ExprOp::Mod, Form::Function, "mod"},
    {te::ExprOp::ShiftRight, Form::Function, "shr"},
};

inline constexpr WordRow kBoolWords[] = {
    {te::ExprOp::Or, Form::Operator, "|"},
    {te::ExprOp::And, Form::Operator, "&"},
    {te::ExprOp::Xor, Form::Operator, "!="},
    {te::ExprOp::Not, Form::Prefix, "!"},
};
// clang-format on

inline const WordRow* word_of(std::span<const WordRow> rows, te::ExprOp op, const char* on) {
  const auto found = std::ranges::find(rows, op, &WordRow::op);
  if (found == rows.end())
    internal_error(std::string("wgsl: '") + te::spelling_of(op) + "' is not an operation on " + on);
  return &*found;
}

}  // namespace xyntra::wgsl
