#include "support/text/letter_case.h"

#include "support/text/utf8.h"

namespace xyntra {
namespace {

struct Letters {
  std::int32_t first, count, step, to_lower;
};
constexpr Letters kLetters[] = {
#define LETTERS(first, count, step, to_lower) {first, count, step, to_lower},
#include "support/text/letters.def"
#undef LETTERS
};

}  // namespace

char32_t in_case(char32_t code_point, LetterCase wanted) {
  const auto code = static_cast<std::int32_t>(code_point);
  if (code < 0x80) {
    const std::int32_t first = wanted == LetterCase::Lower ? 'A' : 'a', offset = code - first;
    const std::int32_t change = wanted == LetterCase::Lower ? 'a' - 'A' : 'A' - 'a';
    return static_cast<char32_t>(offset >= 0 && offset < 26 ? code + change : code);
  }
  for (const Letters& row : kLetters) {
    const std::int32_t offset = code - row.first - (wanted == LetterCase::Upper ? row.to_lower : 0);
    if (offset < 0 || offset >= row.count * row.step || offset % row.step != 0) continue;
    return static_cast<char32_t>(code + (wanted == LetterCase::Lower ? row.to_lower : -row.to_lower));
  }
  return code_point;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t byte) { text += static_cast<char>(byte); };
  if (code_point > 0x10ffff) return put(0xff);
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      put(0xe0 | code_point >> 12);
    } else {
      put(0xf0 | (code_point >> 18 & 0x0f));
      put(0x80 | (code_point >> 12 & 0x3f));
    }
    put(0x80 | (code_point >> 6 & 0x3f));
  }
  put(0x80 | (code_point & 0x3f));
}

std::string in_case(std::string_view text, LetterCase wanted) {
  std::string made;
  made.reserve(text.size());
  while (!text.empty()) {
    const auto next = first_character(text);
    if (next) {
      append_utf8(made, in_case(next->code_point, wanted));
    } else {
      made += text.front();
    }
    text.remove_prefix(next ? next->size : 1);
  }
  return made;
}

}  // namespace xyntra
