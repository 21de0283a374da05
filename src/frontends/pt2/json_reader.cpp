#include "frontends/pt2/json_reader.h"

#include <charconv>
#include <limits>

namespace xyntra::pt2 {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

std::optional<std::uint32_t> four_digits(std::string_view text) {
  std::uint32_t code = 0;
  if (text.size() < 4) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, code, 16);
  return error == std::errc() && end == text.data() + 4 ? std::optional(code) : std::nullopt;
}

}  // namespace

void JsonReader::fail(std::string message) {
  if (error_) return;
  error_ = bad_model("JSON at byte " + std::to_string(position_) + ": " + std::move(message)).value();
}

Status JsonReader::status() const { return error_ ? Status(failure(*error_)) : Status(); }

Status JsonReader::at_end() {
  if (!error_ && next() != 0) fail("more text follows");
  return status();
}

char JsonReader::next() {
  while (position_ < text_.size() && is_json_space(text_[position_])) ++position_;
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool JsonReader::take(char c) {
  if (failed() || next() != c) return false;
  ++position_;
  return true;
}

void JsonReader::expect(char c) {
  if (!take(c)) fail(std::string("'") + c + "' is missing");
}

void JsonReader::object(const std::function<void(std::string_view)>& entry) {
  if (++depth_ > kMaxDepth) fail("nested more than " + std::to_string(kMaxDepth) + " deep");
  expect('{');
  if (!failed() && !take('}')) {
    do {
      const std::string key = text();
      expect(':');
      if (failed()) break;
      entry(key);
    } while (take(','));
    expect('}');
  }
  --depth_;
}

void JsonReader::array(const std::function<void()>& element) {
  if (++depth_ > kMaxDepth) fail("nested more than " + std::to_string(kMaxDepth) + " deep");
  expect('[');
  if (!failed() && !take(']')) {
    do element();
    while (take(','));
    expect(']');
  }
  --depth_;
}

std::string_view JsonReader::raw_text(bool& escaped) {
  escaped = false;
  expect('"');
  const std::size_t start = position_;
  while (!failed() && position_ < text_.size() && text_[position_] != '"') {
    const char c = text_[position_];
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
    if (c == '\\') {
      escaped = true;
      ++position_;
    }
    ++position_;
  }
  if (failed()) return {};
  if (position_ >= text_.size()) {
    fail("a string does not end");
    return {};
  }
  return text_.substr(start, position_++ - start);
}

std::string JsonReader::unescaped(std::string_view raw) {
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char letter = raw[++i];
    if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
      out += kMeant[known];
      continue;
    }
    auto code = letter == 'u' ? four_digits(raw.substr(i + 1)) : std::nullopt;
    if (!code) {
      fail("an unknown escape in a string");
      return out;
    }
    i += 4;
    const bool high = *code >= 0xd800 && *code < 0xdc00;
    if (high && raw.substr(i + 1).starts_with("\\u")) {
      const auto low = four_digits(raw.substr(i + 3));
      if (low && *low >= 0xdc00 && *low < 0xe000) {
        code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
        i += 6;
      }
    }
    if (*code >= 0xd800 && *code < 0xe000) code = 0xfffd;  // half a pair means nothing
    append_utf8(out, *code);
  }
  return out;
}

std::string JsonReader::text() {
  bool escaped = false;
  const std::string_view raw = raw_text(escaped);
  return escaped ? unescaped(raw) : std::string(raw);
}

std::string_view JsonReader::number() {
  if (failed()) return {};
  next();
  const std::size_t start = position_;
  while (position_ < text_.size()) {
    constexpr std::string_view kCharacters = "0123456789+-.eE";
    if (kCharacters.find(text_[position_]) == std::string_view::npos) break;
    ++position_;
  }
  if (start == position_) fail("a number is missing");
  return text_.substr(start, position_ - start);
}

std::int64_t JsonReader::integer() {
  const std::string_view digits = number();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!failed() && (error != std::errc() || end != digits.data() + digits.size()))
    fail("'" + std::string(digits.substr(0, 40)) + "' is no whole number of 64 bits");
  return failed() ? 0 : value;
}

double JsonReader::real() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool quoted = !failed() && next() == '"';
  if (quoted) ++position_;
  struct Word {
    std::string_view word;
    double value;
  };
  for (const auto& [word, value] : {Word{"Infinity", kInfinity}, Word{"-Infinity", -kInfinity},
                                    Word{"NaN", std::numeric_limits<double>::quiet_NaN()}}) {
    if (failed() || !text_.substr(position_).starts_with(word)) continue;
    position_ += word.size();
    if (quoted) expect('"');
    return value;
  }
  if (quoted) fail("a number is missing");
  const std::string_view digits = number();
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!failed() && (error == std::errc::invalid_argument || end != digits.data() + digits.size()))
    fail("'" + std::string(digits.substr(0, 40)) + "' is no number");
  return failed() ? 0 : value;
}

bool JsonReader::literal(std::string_view word) {
  if (failed()) return false;
  next();
  if (!text_.substr(position_).starts_with(word)) return false;
  position_ += word.size();
  return true;
}

bool JsonReader::truth() {
  if (literal("true")) return true;
  if (!literal("false")) fail("true or false is missing");
  return false;
}

bool JsonReader::null() { return literal("null"); }

// Without recursion: only how many brackets of which kind are open is remembered.
void JsonReader::skip() {
  std::string open;
  do {
    if (failed()) return;
    const char c = next();
    if (c == '{' || c == '[') {
      ++position_;
      open += c == '{' ? '}' : ']';
      if (static_cast<int>(open.size()) + depth_ > kMaxDepth)
        return fail("nested more than " + std::to_string(kMaxDepth) + " deep");
      if (next() != open.back()) {
        if (open.back() == '}') {
          bool escaped = false;
          raw_text(escaped);
          expect(':');
        }
        continue;
      }
    } else if (c == '"') {
      bool escaped = false;
      raw_text(escaped);
    } else if (c == 't' || c == 'f') {
      truth();
    } else if (c == 'n') {
      if (!null()) fail("null is missing");
    } else {
      real();
    }
    // What may follow a value: the ends of what holds it, or a comma and the next one.
    while (!failed() && !open.empty() && take(open.back())) open.pop_back();
    if (open.empty() || failed()) return;
    expect(',');
    if (open.back() == '}') {
      bool escaped = false;
      raw_text(escaped);
      expect(':');
    }
  } while (!open.empty());
}

}  // namespace xyntra::pt2
