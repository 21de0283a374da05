#include "support/text/text.h"

#include <algorithm>
#include <array>

#include "support/text/utf8.h"

namespace xyntra {
namespace {

struct CodePointRange {
  char32_t first, last;
};

constexpr auto kUnsafe = std::to_array<CodePointRange>({
    {0x0000, 0x001f},    // C0 controls
    {0x007f, 0x009f},    // DEL, C1 controls
    {0x00ad, 0x00ad},    // soft hyphen
    {0x034f, 0x034f},    // grapheme joiner
    {0x061c, 0x061c},    // Arabic letter mark
    {0x115f, 0x1160},    // Hangul fillers
    {0x17b4, 0x17b5},    // Khmer inherent vowels
    {0x180b, 0x180f},    // Mongolian selectors and vowel separator
    {0x200b, 0x200f},    // zero width space and joiners, direction marks
    {0x2028, 0x202e},    // line and paragraph separator, bidi embeddings and overrides
    {0x2060, 0x206f},    // word joiner, invisible operators, bidi isolates
    {0x3164, 0x3164},    // Hangul filler
    {0xfeff, 0xfeff},    // byte order mark
    {0xffa0, 0xffa0},    // halfwidth Hangul filler
    {0xfff0, 0xfffb},    // not assigned, interlinear annotation
    {0x1bca0, 0x1bca3},  // controls of shorthand
    {0x1d173, 0x1d17a},  // controls of music
    {0xe0000, 0xe0fff},  // tags, selectors, not assigned
});

std::string hex(std::uint32_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += kDigits[value >> shift & 15];
  return text;
}

void append_escaped(std::string& out, char32_t code_point) {
  switch (code_point) {
    case U'\n': out += "\\n"; return;
    case U'\t': out += "\\t"; return;
    case U'\r': out += "\\r"; return;
    default: break;
  }
  if (code_point < 0x80) {
    out += "\\x" + hex(code_point, 2);
  } else {
    out += "\\u{" + hex(code_point, code_point > 0xffff ? 5 : 4) + "}";
  }
}

// `also_escaped` are the characters that get a backslash before them.
std::string escaped(std::string_view text, std::string_view also_escaped) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto character = first_character(text);
    if (!character) {
      out += "\\x" + hex(static_cast<unsigned char>(text.front()), 2);
      text.remove_prefix(1);
      continue;
    }
    if (is_unsafe_to_show(character->code_point)) {
      append_escaped(out, character->code_point);
    } else {
      if (also_escaped.find(text.front()) != std::string_view::npos) out += '\\';
      out += text.substr(0, character->size);
    }
    text.remove_prefix(character->size);
  }
  return out;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6), tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12), tail(6), tail(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0);
  }
}

std::optional<std::uint32_t> parse_hex(std::string_view digits) {
  if (digits.empty() || digits.size() > 6) return std::nullopt;
  std::uint32_t value = 0;
  for (char digit : digits) {
    const char lower = static_cast<char>(digit | 0x20);
    if (digit >= '0' && digit <= '9') {
      value = value * 16 + static_cast<std::uint32_t>(digit - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<std::uint32_t>(lower - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// The escape after a backslash at the front of `rest`; returns how many characters it took, 0 when wrong.
std::size_t unescape(std::string_view rest, std::string& out) {
  if (rest.empty()) return 0;
  switch (rest.front()) {
    case 'n': out += '\n'; return 1;
    case 't': out += '\t'; return 1;
    case 'r': out += '\r'; return 1;
    case '"':
    case '\'':
    case '\\': out += rest.front(); return 1;
    case 'x': {
      const auto value = rest.size() < 3 ? std::nullopt : parse_hex(rest.substr(1, 2));
      if (!value) return 0;
      out += static_cast<char>(*value);
      return 3;
    }
    case 'u': {
      const std::size_t close = rest.find('}');
      if (close == std::string_view::npos || rest.size() < 3 || rest[1] != '{') return 0;
      const auto value = parse_hex(rest.substr(2, close - 2));
      if (!value || *value > 0x10ffff || (*value >= 0xd800 && *value <= 0xdfff)) return 0;
      append_utf8(out, *value);
      return close + 1;
    }
    default: return 0;
  }
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

// Insertions, deletions, substitutions and swaps of neighbours, letters alike in either case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const auto same = [&](std::size_t k, std::size_t l) { return lower(a[k]) == lower(b[l]); };
      cost[i][j] = std::min(
          {cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same(i - 1, j - 1) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1))
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

bool is_unsafe_to_show(char32_t code_point) {
  return std::ranges::any_of(kUnsafe, [code_point](const CodePointRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

std::optional<Utf8Character> first_character(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return Utf8Character{lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return std::nullopt;
  char32_t code = lead & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (overlong || surrogate || code > 0x10ffff) return std::nullopt;
  return Utf8Character{code, size};
}

std::string printable(std::string_view text) { return escaped(text, ""); }

std::string quote(std::string_view text) { return '"' + escaped(text, "\"\\") + '"'; }

Result<std::string> unquote(std::string_view text) {
  if (text.size() < 2 || text.front() != '"') return usage_error("a quoted string begins and ends with '\"'");
  std::string out;
  for (std::size_t i = 1; i < text.size();) {
    if (text[i] == '"') {
      if (i + 1 == text.size()) return out;
      return usage_error("characters after the closing quote, at offset " + std::to_string(i + 1));
    }
    if (text[i] != '\\') {
      out += text[i++];
      continue;
    }
    const std::size_t taken = unescape(text.substr(i + 1), out);
    if (taken == 0) return usage_error("unknown escape at offset " + std::to_string(i));
    i += 1 + taken;
  }
  return usage_error("the closing quote is missing");
}

std::string_view cut_at_character(std::string_view text, std::size_t bytes) {
  if (bytes >= text.size()) return text;
  // At most three steps back: a character has at most three bytes after its first.
  for (std::size_t back = 0; back < 4 && back <= bytes; ++back) {
    const std::size_t end = bytes - back;
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80) return text.substr(0, end);
  }
  return text.substr(0, bytes);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto character = first_character(text);
    if (!character) return false;
    text.remove_prefix(character->size);
  }
  return true;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string joined(std::span<const std::string> pieces, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) out += separator;
    out += pieces[i];
  }
  return out;
}

std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 64;  // the distance is quadratic, and no name that is typed is longer
  if (word.size() > kLongestWord) return std::nullopt;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 1) + 1;
  std::optional<std::string> best;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

}  // namespace xyntra
