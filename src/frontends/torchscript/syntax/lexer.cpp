#include "frontends/torchscript/syntax/lexer.h"

#include <algorithm>

#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

constexpr std::size_t kMostIndents = 64;
constexpr std::size_t kMostBrackets = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || is_digit(c); }

constexpr std::string_view kSymbols[] = {"->", "(", ")", "[", "]", "{", "}", ",", ":", ".", "=", "-", "*"};

struct Escape {
  char letter, meaning;
};
constexpr Escape kEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'},  {'a', '\a'}, {'b', '\b'},
                               {'f', '\f'}, {'v', '\v'}, {'\\', '\\'}, {'"', '"'},  {'\'', '\''}};

}  // namespace

tl::unexpected<Error> Lexer::error(std::uint32_t line, const std::string& message,
                                   ErrorClass error_class) const {
  return failure(error_class, std::string(path_) + ":" + std::to_string(line) + ": " + message);
}

Token Lexer::token(Token::Kind kind) const {
  Token made;
  made.kind = kind;
  made.line = line_;
  return made;
}

// To the first character of the next line that has one, whose indentation is compared with that of the lines before.
Result<bool> Lexer::begin_line() {
  while (at_ < text_.size()) {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] == ' ') ++end;
    const char first = end < text_.size() ? text_[end] : '\n';
    const std::size_t indent = end - at_;
    at_ = end;
    if (first == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (first != '\n' && first != '\r') {
      at_line_start_ = false;
      indented_ = indent > indents_.back();
      if (indented_) {
        if (indents_.size() > kMostIndents) {
          return error(line_, "blocks are nested more than " + std::to_string(kMostIndents) + " deep",
                       ErrorClass::Limit);
        }
        indents_.push_back(indent);
      }
      for (; indent < indents_.back(); ++dedents_) indents_.pop_back();
      if (indent != indents_.back()) return error(line_, "indented unlike any line before");
      return true;
    }
    if (peek() == '\r') ++at_;
    if (peek() == '\n') {
      ++at_;
      ++line_;
    } else if (at_ < text_.size()) {
      return error(line_, "a carriage return within a line");
    }
  }
  return false;
}

Result<Token> Lexer::next() {
  if (at_line_start_ && brackets_ == 0) {
    XYNTRA_TRY(const bool more, begin_line());
    if (!more) {
      dedents_ += indents_.size() - 1;
      indents_.resize(1);
    }
    if (indented_) {
      indented_ = false;
      return token(Token::Kind::Indent);
    }
  }
  if (dedents_ > 0) {
    --dedents_;
    return token(Token::Kind::Dedent);
  }
  while (true) {
    const char c = peek();
    if (at_ >= text_.size()) {
      if (brackets_ > 0) return error(line_, "a bracket is not closed");
      if (at_line_start_) return token(Token::Kind::End);
      at_line_start_ = true;
      return token(Token::Kind::Newline);
    }
    if (c == '\n') {
      const Token made = token(Token::Kind::Newline);
      ++at_;
      ++line_;
      if (brackets_ > 0) continue;
      at_line_start_ = true;
      return made;
    }
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || (c == '\r' && peek(1) == '\n')) {
      ++at_;
    } else {
      break;
    }
  }
  const char c = peek();
  if (starts_name(c)) return name();
  if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
  if (c == '"' || c == '\'') return quoted();
  return symbol();
}

Token Lexer::name() {
  Token made = token(Token::Kind::Name);
  const std::size_t start = at_;
  while (continues_name(peek())) ++at_;
  made.text = text_.substr(start, at_ - start);
  return made;
}

Result<Token> Lexer::number() {
  const std::size_t start = at_;
  bool real = false;
  while (is_digit(peek())) ++at_;
  if (peek() == '.') {
    real = true;
    ++at_;
    while (is_digit(peek())) ++at_;
  }
  if (peek() == 'e' || peek() == 'E') {
    const std::size_t sign = peek(1) == '-' || peek(1) == '+' ? 1 : 0;
    if (!is_digit(peek(1 + sign))) return error(line_, "a number that ends with its exponent's letter");
    real = true;
    at_ += 1 + sign;
    while (is_digit(peek())) ++at_;
  }
  if (peek() == 'j') return error(line_, "a complex number", ErrorClass::Unsupported);
  if (continues_name(peek())) return error(line_, "a number that goes on with a letter");
  const std::string_view digits = text_.substr(start, at_ - start);
  Token made = token(real ? Token::Kind::Real : Token::Kind::Integer);
  made.text = digits;
  if (!real) {
    const auto value = parse_u64(digits);
    if (!value || *value > (std::uint64_t{1} << 63)) return error(line_, "an integer of more than 64 bits");
    made.integer = *value;
    return made;
  }
  const auto value = parse_f64(digits);
  if (!value) return error(line_, "a number that no float holds");
  made.real = *value;
  return made;
}

Status Lexer::escape(std::string& string) {
  const char letter = peek();
  ++at_;
  for (const Escape& one : kEscapes) {
    if (one.letter == letter) return string += one.meaning, Status();
  }
  int code = 0;
  --at_;
  for (int i = 0; i < 3; ++i, ++at_) {  // \377
    if (peek() < '0' || peek() > '7') return error(line_, "an escape in a string that torch does not write");
    code = 8 * code + (peek() - '0');
  }
  if (code > 255) return error(line_, "an escape in a string that torch does not write");
  string += static_cast<char>(code);
  return {};
}

Result<Token> Lexer::quoted() {
  Token made = token(Token::Kind::Text);
  const char quote = peek();
  ++at_;
  while (peek() != quote) {
    if (at_ >= text_.size() || peek() == '\n') return error(line_, "a string that is not closed");
    const char c = peek();
    ++at_;
    if (c != '\\') {
      made.string += c;
    } else {
      XYNTRA_CHECK_OK(escape(made.string));
    }
  }
  ++at_;
  return made;
}

Result<Token> Lexer::symbol() {
  const std::string_view rest = text_.substr(at_);
  const auto* found =
      std::ranges::find_if(kSymbols, [&](std::string_view one) { return rest.starts_with(one); });
  if (found == std::end(kSymbols))
    return error(line_, "unexpected character '" + printable(cut_at_character(rest, 4).substr(0, 1)) + "'");
  Token made = token(Token::Kind::Symbol);
  made.text = text_.substr(at_, found->size());
  at_ += found->size();
  const char first = found->front();
  if (first == '(' || first == '[' || first == '{') {
    if (++brackets_ > kMostBrackets)
      return error(line_, "brackets are nested more than " + std::to_string(kMostBrackets) + " deep",
                   ErrorClass::Limit);
  }
  if ((first == ')' || first == ']' || first == '}') && brackets_-- == 0)
    return error(line_, "a bracket too many is closed");
  return made;
}

}  // namespace xyntra::torchscript
