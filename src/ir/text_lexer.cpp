#include "ir/text_lexer.h"

#include <algorithm>

namespace xyntra {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_character(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
bool is_name_character(char c) { return is_word_character(c) || c == '/'; }

// Longest first, so that `...` is not read as `..`.
constexpr std::string_view kSymbols[] = {"...", "..", "->", "(", ")", "{", "}", "[",
                                         "]",   "<",  ">",  ",", "=", ":", "_", "?"};

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_character) &&
         name.find("//") == std::string_view::npos;
}

bool is_plain_word(std::string_view word) {
  return !word.empty() && word != "_" && is_letter(word[0]) &&
         std::all_of(word.begin(), word.end(), is_word_character) &&
         word.find("..") == std::string_view::npos;
}

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

// Over a string, both quotes included; what is inside is checked by whoever unquotes it.
Status Lexer::skip_string() {
  std::size_t start = position_++;
  while (position_ < text_.size() && peek() != '"') {
    if (peek() == '\n') break;
    position_ += peek() == '\\' ? 2 : 1;
  }
  if (position_ >= text_.size() || peek() != '"') return error_at(start, "this string has no closing '\"'");
  ++position_;
  return {};
}

Result<Token> Lexer::name(Token::Kind kind) {
  Token token{kind, {}, position_++};
  std::size_t start = position_;
  if (peek() == '"') {
    XYNTRA_CHECK_OK(skip_string());
  } else {
    while (is_name_character(peek()) && !(peek() == '/' && peek(1) == '/')) ++position_;
    if (position_ == start) return error_at(token.offset, "expected a name, plain or in quotes, after this");
  }
  token.text = text_.substr(start, position_ - start);
  return token;
}

Token Lexer::number() {
  Token token{Token::Kind::Number, {}, position_};
  bool hexadecimal = peek() == '0' && peek(1) == 'x';
  if (peek() == '-') ++position_;
  while (is_word_character(peek()) && !(peek() == '.' && peek(1) == '.')) {
    bool exponent = !hexadecimal && (peek() == 'e' || peek() == 'E');
    ++position_;
    if (exponent && (peek() == '+' || peek() == '-')) ++position_;
  }
  token.text = text_.substr(token.offset, position_ - token.offset);
  return token;
}

Result<Token> Lexer::next() {
  skip_blank();
  Token token{Token::Kind::End, {}, position_};
  if (position_ >= text_.size()) return token;
  char c = peek();
  if (c == '%') return name(Token::Kind::ValueName);
  if (c == '@') return name(Token::Kind::AtName);
  if (is_digit(c) || (c == '-' && (is_digit(peek(1)) || is_letter(peek(1))))) return number();
  if (c == '"') {
    XYNTRA_CHECK_OK(skip_string());
    token.kind = Token::Kind::String;
    token.text = text_.substr(token.offset, position_ - token.offset);
    return token;
  }
  if (is_letter(c) && !(c == '_' && !is_word_character(peek(1)))) {
    while (is_word_character(peek()) && !(peek() == '.' && peek(1) == '.')) ++position_;
    token.kind = Token::Kind::Word;
    token.text = text_.substr(token.offset, position_ - token.offset);
    if (token.text != "base64" || peek() != '"') return token;
    std::size_t start = position_;
    XYNTRA_CHECK_OK(skip_string());
    token.kind = Token::Kind::Base64;
    token.text = text_.substr(start + 1, position_ - start - 2);
    return token;
  }
  for (std::string_view symbol : kSymbols) {
    if (text_.substr(position_, symbol.size()) != symbol) continue;
    position_ += symbol.size();
    token.kind = Token::Kind::Symbol;
    token.text = symbol;
    return token;
  }
  return error_at(position_, "unexpected character");
}

Result<std::vector<Lexer::Piece>> Lexer::bracketed() {
  std::vector<Piece> pieces;
  std::size_t start = position_, open = 0;
  bool in_quotes = false, empty = true;
  for (; position_ < text_.size() && peek() != '\n'; ++position_) {
    char c = peek();
    if (c != ' ' && c != ']') empty = false;
    if (in_quotes) {
      if (c == '\\') ++position_;
      in_quotes = c != '\'';
    } else if (c == '\'') {
      in_quotes = true;
    } else if (c == '(') {
      ++open;
    } else if (c == ')' && open > 0) {
      --open;
    } else if ((c == ',' || c == ']') && open == 0) {
      if (c == ',' || !empty) pieces.push_back({text_.substr(start, position_ - start), start});
      start = position_ + 1;
      if (c == ']') {
        ++position_;
        return pieces;
      }
    }
  }
  return error_at(std::min(position_, text_.size()), "expected ']' on the same line");
}

tl::unexpected<Error> Lexer::error_at(std::size_t offset, const std::string& message,
                                      ErrorClass error_class) const {
  std::string_view before = text_.substr(0, offset);
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  std::string_view on_line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0: the first line
  auto column = std::count_if(on_line.begin(), on_line.end(),
                              [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }) +
                1;
  return failure(error_class,
                 "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message);
}

}  // namespace xyntra
