// The words and operators of `.kir` text, for the printer and the parser alike.
#pragma once

#include <array>
#include <cctype>
#include <string_view>

#include "kir/kernel.h"
#include "te/spelling.h"

namespace xyntra::kir {

inline constexpr int kTightest = 7;  // what a unary operator's operand binds with

inline constexpr std::array<std::string_view, 3> kScaleRoundings = {"nearest", "up", "down"};  // CastMode

inline constexpr std::array<std::string_view, 4> kSwizzles = {"none", "32", "64", "128"};
inline const char* spelling_of(Swizzle swizzle) {
  return kSwizzles[static_cast<std::size_t>(swizzle)].data();
}

inline bool is_identifier_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
inline bool is_identifier_character(char c) {
  return is_identifier_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}
inline bool is_plain_identifier(std::string_view name) {
  if (name.empty() || !is_identifier_start(name[0])) return false;
  for (char c : name) {
    if (!is_identifier_character(c)) return false;
  }
  return true;
}

// Words that begin a statement or mean something of their own, so that nothing else is called so.
bool is_reserved(std::string_view word);

// Operations written as calls. A buffer may be called max, since it is followed by a bracket; a loop or a size may not.
inline bool is_function(te::ExprOp op) {
  return te::kind_of(op) != te::ExprKind::Leaf && te::precedence_of(op) == 0 && op != te::ExprOp::Neg &&
         op != te::ExprOp::Not && op != te::ExprOp::Cast && op != te::ExprOp::Bitcast &&
         te::operand_count_of(op) > 0;
}
bool is_function(std::string_view word);

}  // namespace xyntra::kir
