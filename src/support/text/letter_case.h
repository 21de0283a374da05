// Upper and lower case of letters, one character for one: the same on every machine, whatever its locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xyntra {

enum class LetterCase : std::uint8_t { Lower, Upper };

std::string in_case(std::string_view text, LetterCase wanted);  // what is not UTF-8 stays as it is
char32_t in_case(char32_t code_point, LetterCase wanted);

// One code point as UTF-8; what is none, such as half of a surrogate pair, gives bytes that are not UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace xyntra
