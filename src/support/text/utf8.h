// Reading UTF-8 one character at a time, strictly: no overlong forms, no surrogates, nothing past U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace xyntra {

struct Utf8Character {
  char32_t code_point = 0;
  std::size_t size = 0;  // bytes
};

// The character at the start of `text`, or nothing where the bytes there are not UTF-8 (or there are none).
std::optional<Utf8Character> first_character(std::string_view text);

// Characters that control a terminal, or make text look like something it is not: C0 and C1, bidi, zero width.
bool is_unsafe_to_show(char32_t code_point);

}  // namespace xyntra
