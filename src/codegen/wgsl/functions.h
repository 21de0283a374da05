// The functions that shaders bring along, by name: "floordiv_i32".
#pragma once

#include <set>
#include <string>

namespace xyntra::wgsl {

// The text of these functions and of those they call, in the order of the table: the same set, the same text.
std::string functions_text(const std::set<std::string>& names);

}  // namespace xyntra::wgsl
