// What changed between two texts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xyntra {

// A unified diff: lines with ` `, `-`, `+`, runs of equal ones left out but for `context` at their ends. Empty when
// nothing changed. Where nearly everything did, all of one and then all of the other.
std::string line_diff(std::string_view before, std::string_view after, std::size_t context = 2);

}  // namespace xyntra
