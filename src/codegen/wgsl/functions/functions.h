// The functions that shaders bring along, by name: "floordiv_i32".
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace xyntra::wgsl {

// $T stands for the type after the name's underscore.
struct Function {
  std::string_view name;
  std::string_view calls;  // separated by spaces
  std::string_view text;
};

// Those of 64-bit integers where the adapter has none: wide_functions.cpp.
std::span<const Function> wide_functions();

// The text of these functions and of those they call, in the order of the table: the same set, the same text.
std::string functions_text(const std::set<std::string>& names);

}  // namespace xyntra::wgsl
