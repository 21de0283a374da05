#include "kir/text_lexer.h"

#include <algorithm>

#include "kir/text_words.h"
#include "support/text/text.h"

namespace xyntra::kir {
namespace {

constexpr std::string_view kSymbols[] = {"<=", ">=", "==", "!=", "<<", ">>", "(", ")", "[",
                                         "]",  "{",  "}",  ",",  ":",  ".",  "=", "+", "-",
                                         "*",  "/",  "<",  ">",  "&",  "|",  "^", "~", "'"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void Lexer::skip_blank() {
  while (position_ < text_.size()) {
    char c = peek();
    if (c == '/' && peek(1) == '/') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

void Lexer::skip_number() {
  auto digits = [this] {
    while (is_digit(peek())) ++position_;
  };
  digits();
  if (peek() == '.' && is_digit(peek(1))) {
    ++position_;
    digits();
  }
  bool sign = peek(1) == '+' || peek(1) == '-';
  if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign ? 2 : 1))) {
    position_ += sign ? 2 : 1;
    digits();
  }
  while (is_identifier_character(peek())) ++position_;  // the dtype: _u8
}

Status Lexer::advance() {
  skip_blank();
  current_ = {Token::Kind::End, {}, position_};
  if (position_ >= text_.size()) return {};
  std::size_t start = position_;
  char c = peek();
  if (is_digit(c)) {
    skip_number();
    current_.kind = Token::Kind::Number;
  } else if (is_identifier_start(c)) {
    while (is_identifier_character(peek())) ++position_;
    current_.kind = Token::Kind::Word;
  } else if (c == '%' && is_digit(peek(1))) {
    start = ++position_;
    while (is_digit(peek())) ++position_;
    current_.kind = Token::Kind::Shared;
  } else {
    auto symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols), [this](std::string_view spelling) {
      return text_.substr(position_, spelling.size()) == spelling;
    });
    if (symbol == std::end(kSymbols)) return error_at(position_, "unexpected character");
    position_ += symbol->size();
    current_.kind = Token::Kind::Symbol;
  }
  current_.text = text_.substr(start, position_ - start);
  return {};
}

Result<Dim> Lexer::size(std::string_view ends) {
  constexpr std::size_t kLongest = 4096;
  std::size_t start = current_.offset, open = 0;
  bool quoted = false;
  position_ = start;
  for (; position_ < text_.size() && peek() != '\n'; ++position_) {
    char c = peek();
    if (quoted) {
      if (c == '\\') ++position_;
      quoted = c != '\'';
    } else if (c == '\'') {
      quoted = true;
    } else if (open == 0 && ends.find(c) != std::string_view::npos) {
      break;
    } else if (c == '(') {
      ++open;
    } else if (c == ')' && open > 0) {
      --open;
    }
  }
  position_ = std::min(position_, text_.size());
  std::string_view piece = trimmed(text_.substr(start, position_ - start));
  if (piece.size() > kLongest) return error_at(start, "this size is too long");
  auto dim = Dim::parse(piece);
  if (!dim) return error_at(start, dim.error().message);
  XYNTRA_CHECK_OK(advance());
  return *dim;
}

std::uint32_t Lexer::line_of(std::size_t offset) const {
  std::string_view before = text_.substr(0, offset);
  return static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n')) + 1;
}

tl::unexpected<Error> Lexer::error_at(std::size_t offset, const std::string& message) const {
  std::string_view before = text_.substr(0, offset);
  std::string_view on_line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0: the first line
  auto column = std::count_if(on_line.begin(), on_line.end(),
                              [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }) +
                1;
  return failure(ErrorClass::BadModel, "line " + std::to_string(line_of(offset)) + ", column " +
                                           std::to_string(column) + ": " + message);
}

}  // namespace xyntra::kir
